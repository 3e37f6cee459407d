cimport cython

from loopcore.kernel.handle cimport TimerHandle, TimerKeeper
from loopcore.native.deadlines cimport Deadlines

cdef Py_ssize_t _FEW
cdef Py_ssize_t _MANY
cdef double _NEVER


# The C pointers are borrowed from the lists, which the collector may clear before the heap is freed. All finalizers
# have run by then, so the heap is not used any more. (`no_gc_clear` is ignored here: the class is in a `.py`, Cython
# 3.)
@cython.final
cdef class TimerHeap(TimerKeeper):
    cdef readonly double earliest
    cdef list _fresh
    cdef Py_ssize_t _fresh_count
    cdef Py_ssize_t _holes
    cdef list _run
    cdef list _timers
    cdef Deadlines _heap
    cdef long long _next_sequence
    cdef readonly Py_ssize_t cancelled_count

    cpdef object push(self, TimerHandle timer)
    @cython.locals(timer=TimerHandle)
    cpdef double next_deadline(self)
    @cython.locals(timer=TimerHandle, due=list)
    cpdef list pop_due(self, double limit)
    @cython.locals(timer=TimerHandle, dropped=tuple, several=list, fresh=list, run=list, timers=list)
    cpdef object clear(self)
    @cython.locals(count=Py_ssize_t)
    cdef Py_ssize_t _sorted_count(self) except -1
    @cython.locals(count=Py_ssize_t)
    cdef bint _is_mostly_cancelled(self) except -1
    cdef int _drop_fresh(self, TimerHandle timer) except -1
    @cython.locals(timer=TimerHandle, kept=Py_ssize_t, position=Py_ssize_t)
    cdef int _close_holes(self) except -1
    @cython.locals(timer=TimerHandle, count=Py_ssize_t, position=Py_ssize_t)
    cdef int _sort_in(self) except -1
    @cython.locals(timer=TimerHandle, new=TimerHandle, fresh=list, position=Py_ssize_t)
    cdef int _make_run(self) except -1
    cdef int _put_into_heap(self, TimerHandle timer, double when, long long sequence) except -1
    @cython.locals(timer=TimerHandle)
    cdef TimerHandle _first(self)
    @cython.locals(timer=TimerHandle)
    cdef TimerHandle _pop(self)
    @cython.locals(last=TimerHandle)
    cdef int _leave(self, TimerHandle timer) except -1
    @cython.locals(first=Py_ssize_t)
    cdef object _trim(self)
    cdef int _compact(self, TimerHandle cancelling) except -1
    @cython.locals(timer=TimerHandle, dropped=list, kept=Py_ssize_t, found=Py_ssize_t, position=Py_ssize_t)
    cdef object _rebuild(self, TimerHandle cancelling)
    @cython.locals(timer=TimerHandle, kept=Py_ssize_t, position=Py_ssize_t)
    cdef int _compact_run(self, TimerHandle cancelling, list dropped, Py_ssize_t found) except -1
