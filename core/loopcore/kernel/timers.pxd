cimport cython

from loopcore.kernel.handle cimport TimerHandle, TimerKeeper

cdef Py_ssize_t _COMPACT_ABOVE
cdef Py_ssize_t _SORT_FROM
cdef double _NEVER


@cython.final
cdef class TimerHeap(TimerKeeper):
    cdef readonly double earliest
    cdef list _new
    cdef Py_ssize_t _new_limit
    cdef list _heap
    cdef list _run
    cdef Py_ssize_t _count
    cdef long long _last_sequence
    cdef readonly Py_ssize_t cancelled_count

    cdef Py_ssize_t _settled(self) except -1
    cpdef object push(self, TimerHandle timer)
    @cython.locals(first=TimerHandle)
    cpdef double next_deadline(self) except? -1
    @cython.locals(due=list, first=TimerHandle)
    cpdef list pop_due(self, double limit)
    @cython.locals(run=list, due=list, left=Py_ssize_t, timer=TimerHandle)
    cdef list _cut_run(self, double limit)
    @cython.locals(new=list, heap=list, run=list, dropped=list, timer=TimerHandle)
    cpdef object clear(self)
    @cython.locals(count=Py_ssize_t, live=list)
    cdef int _drop_cancelled(self) except -1
    cdef int _move_new(self) except -1
    @cython.locals(timer=TimerHandle, last=list)
    cdef int _move_reversed(self) except -1
    @cython.locals(new=list, run=list)
    cdef int _sort_new(self) except -1
    @cython.locals(first=TimerHandle, other=TimerHandle)
    cdef TimerHandle _first(self)
    @cython.locals(last=TimerHandle)
    cdef int _pop(self, TimerHandle timer) except -1
    @cython.locals(heap=list, run=list, place=Py_ssize_t, dropped=Py_ssize_t)
    cdef object _compact(self)
    @cython.locals(heap=list, above=TimerHandle)
    cdef int _rise(self, TimerHandle timer, Py_ssize_t place) except -1
    @cython.locals(heap=list, count=Py_ssize_t, below=Py_ssize_t, first=TimerHandle, second=TimerHandle)
    cdef int _sink(self, TimerHandle timer, Py_ssize_t place) except -1


cdef bint fires_before(TimerHandle one, TimerHandle other) noexcept
@cython.locals(live=list, timer=TimerHandle)
cdef list live_of(list timers)
cpdef double deadline_of(TimerHandle timer)
