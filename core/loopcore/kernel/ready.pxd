cimport cython

from loopcore.kernel.observers cimport Observers
from loopcore.kernel.runnable cimport Runnable

cdef int _READY
cdef int _QUEUED
cdef Py_ssize_t _LARGE_RING


@cython.final
cdef class ReadyQueue:
    cdef list _ring
    cdef Py_ssize_t _mask
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _first
    cdef Py_ssize_t _count
    cdef Observers _observers
    cdef int _source

    cpdef object push(self, Runnable runnable)
    cpdef object report_to(self, Observers observers)
    @cython.locals(source=int)
    cdef int _prepare_for(self, Runnable runnable) except -1
    cdef int _make_room(self) except -1
    cpdef Runnable pop(self)
    cpdef bint take_only(self, Runnable runnable) except -1
    @cython.locals(small=list, ring=list)
    cdef object _shrink(self)
    @cython.locals(taken=list, runnable=Runnable, _=Py_ssize_t)
    cpdef list take(self)
    @cython.locals(runnable=Runnable)
    cpdef object clear(self)
    @cython.locals(ring=list, grown=list, size=Py_ssize_t, first=Py_ssize_t)
    cdef object _grow(self)
