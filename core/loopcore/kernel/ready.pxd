cimport cython

from loopcore.kernel.handle cimport Handle
from loopcore.kernel.meter cimport CallbackSampler
from loopcore.kernel.runnable cimport Runnable

cdef int _READY


@cython.final
cdef class ReadyQueue:
    cdef list _ring
    cdef Py_ssize_t _mask
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _first
    cdef Py_ssize_t _count
    cdef bint _is_large
    cdef CallbackSampler _sampler

    cpdef object push(self, Runnable runnable)
    cpdef object report_to(self, CallbackSampler sampler)
    cdef bint has_room(self) except -1
    cdef int _prepare_for(self, Runnable runnable) except -1
    cpdef Runnable pop(self)
    @cython.locals(small=list)
    cdef int _shrink(self) except -1
    @cython.locals(taken=list, runnable=Runnable, _=Py_ssize_t)
    cpdef list take(self)
    @cython.locals(runnable=Runnable)
    cpdef object clear(self)
    @cython.locals(dropped=list)
    cdef int _replace(self, list small) except -1
    @cython.locals(ring=list, grown=list, size=Py_ssize_t, first=Py_ssize_t)
    cdef object _grow(self)


cdef inline int push_last(ReadyQueue ready, Runnable runnable) except -1:
    ready.push(runnable)
    return 0


@cython.final
cdef class MicrotaskQueues:
    cdef public Py_ssize_t budget
    cdef object _next_ticks
    cdef object _microtasks
    cdef bint _at_microtasks

    cpdef object push_next_tick(self, Handle handle)
    cpdef object push_microtask(self, Handle handle)
    cpdef object pop(self)
    cpdef object clear(self)
