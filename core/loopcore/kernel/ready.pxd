cimport cython

from loopcore.kernel.handle cimport Handle
from loopcore.kernel.meter cimport CallbackSampler
from loopcore.kernel.runnable cimport Runnable
from loopcore.native.ring cimport put_item, take_item

cdef int _READY


# A ring holds only Runnables, checked by `push`: checking again would walk through the bases of the class.
cdef inline Runnable take_runnable(list ring, Py_ssize_t index):
    return <Runnable>take_item(ring, index)


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
    cdef int _prepare_for(self, Runnable runnable) except -1
    @cython.locals(runnable=Runnable)
    cpdef Runnable pop(self)
    @cython.locals(runnable=Runnable)
    cpdef Runnable pop_as_is(self)
    @cython.locals(small=list)
    cdef int _shrink(self) except -1
    @cython.locals(taken=list, runnable=Runnable, _=Py_ssize_t)
    cpdef list take(self)
    @cython.locals(position=Py_ssize_t, place=Py_ssize_t)
    cdef bint put_in_place_of(self, Runnable entry, Runnable other) except -1
    cpdef object clear(self)
    @cython.locals(position=Py_ssize_t, runnable=Runnable)
    cdef int track_all(self) except -1
    @cython.locals(dropped=list)
    cdef int _replace(self, list small) except -1
    @cython.locals(ring=list, grown=list, size=Py_ssize_t, first=Py_ssize_t, position=Py_ssize_t)
    cdef object _grow(self)


# `push`, inlined for hot paths.
@cython.nonecheck(False)
cdef inline int push_last(ReadyQueue ready, Runnable runnable) except -1:
    if ready._count > ready._limit:
        ready._prepare_for(runnable)
    put_item(ready._ring, (ready._first + ready._count) & ready._mask, runnable)
    ready._count += 1
    return 0


# `pop_as_is`, inlined for the pending phase.
@cython.nonecheck(False)
cdef inline Runnable pop_first(ReadyQueue ready):
    if ready._count == 0:
        return None
    runnable = take_runnable(ready._ring, ready._first)
    ready._first = (ready._first + 1) & ready._mask
    ready._count -= 1
    if ready._count == 0 and ready._is_large:
        ready._shrink()
    return runnable
