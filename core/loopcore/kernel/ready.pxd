cimport cython

from loopcore.kernel.handle cimport Handle
from loopcore.kernel.meter cimport Stopwatch
from loopcore.kernel.runnable cimport Runnable
from loopcore.native.ring cimport take_item

cdef int _READY
cdef Py_ssize_t _LARGE_MASK


# Only what `push` has taken for a Runnable is in a ring: to ask again would be to walk through the bases of its class.
cdef inline Runnable take_runnable(list ring, Py_ssize_t index):
    return <Runnable>take_item(ring, index)


@cython.final
cdef class ReadyQueue:
    cdef list _ring
    cdef Py_ssize_t _mask
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _first
    cdef Py_ssize_t _count
    cdef Stopwatch _stopwatch

    cpdef object push(self, Runnable runnable)
    cpdef object report_to(self, Stopwatch stopwatch)
    cdef bint has_room(self) except -1
    cdef object _prepare_for(self, Runnable runnable)
    @cython.locals(runnable=Runnable)
    cpdef Runnable pop(self)
    @cython.locals(runnable=Runnable, small=list)
    cpdef Runnable pop_as_is(self)
    @cython.locals(taken=list, runnable=Runnable, _=Py_ssize_t)
    cpdef list take(self)
    cpdef object clear(self)
    @cython.locals(position=Py_ssize_t, runnable=Runnable)
    cdef object track_all(self)
    @cython.locals(dropped=list)
    cdef object _replace(self, list small)
    @cython.locals(ring=list, grown=list, size=Py_ssize_t, first=Py_ssize_t, position=Py_ssize_t)
    cdef object _grow(self)


@cython.final
cdef class UrgentQueues:
    cdef public Py_ssize_t budget
    cdef object _next_ticks
    cdef object _microtasks
    cdef bint _at_microtasks

    cpdef object push_next_tick(self, Handle handle)
    cpdef object push_microtask(self, Handle handle)
    cpdef object pop(self)
    cpdef object clear(self)
