cimport cython

from loopcore.kernel.handle cimport TimerHandle

cdef double _NEVER


@cython.final
cdef class TimerHeap:
    cdef readonly double earliest
    cdef list _heap
    cdef long long _next_sequence
    cdef readonly Py_ssize_t cancelled_count

    @cython.locals(size=Py_ssize_t)
    cpdef object push(self, TimerHandle timer)
    cpdef object note_cancelled(self, TimerHandle timer)
    @cython.locals(timer=TimerHandle)
    cpdef double next_deadline(self)
    @cython.locals(timer=TimerHandle, due=list)
    cpdef list pop_due(self, double limit)
    @cython.locals(timer=TimerHandle)
    cpdef object clear(self)
    cdef bint _is_mostly_cancelled(self) except -1
    @cython.locals(timer=TimerHandle, heap=list, live=list, size=Py_ssize_t)
    cdef object _compact(self, TimerHandle cancelling)
    @cython.locals(heap=list, timer=TimerHandle, last=TimerHandle, first=TimerHandle)
    cdef TimerHandle _pop(self)
    @cython.locals(heap=list, timer=TimerHandle, parent=TimerHandle, when=double, above=Py_ssize_t)
    cdef object _rise(self, Py_ssize_t position)
    @cython.locals(heap=list, size=Py_ssize_t, position=Py_ssize_t, below=Py_ssize_t, timer=TimerHandle,
                   child=TimerHandle, sibling=TimerHandle)
    cdef object _sink(self)


cdef bint _fires_before(TimerHandle one, TimerHandle other)
