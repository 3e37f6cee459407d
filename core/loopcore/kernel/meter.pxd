cimport cython

from loopcore.kernel.handle cimport Handle, TimerHandle
from loopcore.kernel.histogram cimport Histogram
from loopcore.kernel.runnable cimport Runnable

cdef double _LONGEST
cdef int _RUNS
cdef int _TICKS
cdef int _READY
cdef int _SOON
cdef int _THREADSAFE
cdef int _TIMER
cdef int _IO
cdef int _TASK
cdef int _PHASE


@cython.final
cdef class CallbackSampler:
    cdef public long long window_ns
    cdef public bint stamping
    cdef public bint running
    cdef public bint is_due
    cdef public bint is_open
    cdef public bint is_timing
    cdef public int source
    cdef public list meters
    cdef long long _idle_ns
    cdef long long _active_ns
    cdef long long _mark
    cdef bint _waiting
    cdef long long _version
    cdef Histogram _tick
    cdef Histogram _lateness
    cdef list _queue_times
    cdef list _run_times
    cdef long long _opened_at
    cdef int _ticks_left
    cdef int _runs_left
    cdef int _stamps_left
    cdef dict _stamps
    cdef long long _fixed_at

    cpdef object resume(self)
    @cython.locals(works=bint, passed=cython.longlong)
    cpdef object pause(self)
    cpdef object wait_begins(self, bint may_block)
    @cython.locals(waited=bint, passed=cython.longlong)
    cpdef object wait_ends(self)
    @cython.locals(passed=cython.longlong, now=cython.longlong)
    cdef long long _move_on(self, bint waiting, bint running) except *
    cpdef object note_late(self, double seconds)
    cpdef object open(self)
    cpdef bint tick_begins(self) except -1
    cpdef bint tick_ends(self) except -1
    cpdef object close(self)
    cpdef object stamp(self, Runnable runnable, int source)
    cpdef object stamp_posted(self, Runnable runnable)
    cdef int _add_stamp(self, Runnable runnable, long long now, int source) except -1
    @cython.locals(stamped=tuple, now=cython.longlong, histogram=Histogram)
    cpdef long long begin(self, Runnable runnable, int source) except *
    @cython.locals(ran_ns=cython.longlong, histogram=Histogram)
    cpdef long long end(self, long long began_at, int source) except *
    cpdef bint is_spent(self) except -1
    @cython.locals(version=cython.longlong, now=cython.longlong, idle_ns=cython.longlong, active_ns=cython.longlong,
                   mark=cython.longlong, waiting=bint, running=bint)
    cpdef tuple _times(self)


cdef int _source_of(Runnable runnable, int source) except -1
