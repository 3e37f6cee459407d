cimport cython

from loopcore.kernel.handle cimport TimerHandle
from loopcore.native.deadlines cimport Deadlines

cdef double _NEVER


# The heap's pointers are borrowed from the list, which the collector may clear before the heap goes; all finalizers have
# run by then, so nobody uses the heap any more. (`no_gc_clear` is ignored here: the class is in a `.py`, Cython 3.)
@cython.final
cdef class TimerHeap:
    cdef readonly double earliest
    cdef list _timers
    cdef Deadlines _heap
    cdef long long _next_sequence
    cdef readonly Py_ssize_t cancelled_count
    cdef object _common_context

    cdef object common_context(self)
    cdef object _forget_context(self)

    cpdef object push(self, TimerHandle timer)
    cpdef object note_cancelled(self, TimerHandle timer)
    @cython.locals(timer=TimerHandle)
    cpdef double next_deadline(self)
    @cython.locals(timer=TimerHandle, due=list)
    cpdef list pop_due(self, double limit)
    @cython.locals(timer=TimerHandle, dropped=list)
    cpdef object clear(self)
    @cython.locals(count=Py_ssize_t)
    cdef bint _is_mostly_cancelled(self) except -1
    @cython.locals(timer=TimerHandle, dropped=list, kept=Py_ssize_t, position=Py_ssize_t)
    cdef object _compact(self, TimerHandle cancelling)
    @cython.locals(timer=TimerHandle)
    cdef TimerHandle _pop(self)
    @cython.locals(last=TimerHandle)
    cdef object _leave(self, TimerHandle timer)
