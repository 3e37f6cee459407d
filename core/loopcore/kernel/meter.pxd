cimport cython

from loopcore._native.threads cimport shared
from loopcore.hooks.observer cimport Observer
from loopcore.kernel.handle cimport Handle
from loopcore.kernel.histogram cimport Histogram
from loopcore.kernel.runnable cimport Runnable

cdef double _LONGEST
cdef int _RUNS
cdef int _TICKS
cdef int _THREADSAFE
cdef int _TIMER
cdef int _IO
cdef int _PHASE
cdef int _WAIT_BEGINS
cdef int _WAIT_ENDS
cdef int _DUE
cdef int _TICK_BEGINS
cdef int _TICK_ENDS
cdef int _BEGINS
cdef int _ENDS
cdef int _QUEUED
cdef int _POSTED
cdef int _ALWAYS
cdef int _IN_WINDOW
cdef int _TIMING


cdef class CallbackSampler(Observer):
    cdef shared window_ns
    cdef shared running
    cdef public bint is_open
    cdef public bint is_timing
    cdef public list meters
    cdef object _loop
    cdef list _running
    cdef list _outer
    cdef shared _stamping
    cdef bint _is_due
    cdef shared _idle_ns
    cdef shared _active_ns
    cdef shared _mark
    cdef shared _waiting
    cdef shared _version
    cdef Histogram _tick
    cdef Histogram _lateness
    cdef list _queue_times
    cdef list _run_times
    cdef long long _opened_at
    cdef int _ticks_left
    cdef int _runs_left
    cdef shared _stamps_left
    cdef dict _stamps
    cdef long long _fixed_at

    cdef void tell(self, int event, object what, long long number) noexcept
    cdef object _measure(self, int event, object what, long long number)
    cdef object _want(self)
    cpdef object resume(self)
    @cython.locals(works=bint, passed=cython.longlong)
    cpdef object pause(self)
    @cython.locals(may_block=bint)
    cdef object _wait_begins(self, bint may_block)
    @cython.locals(waited=bint, passed=cython.longlong)
    cdef object _wait_ends(self)
    @cython.locals(passed=cython.longlong, now=cython.longlong)
    cdef long long _move_on(self, bint waiting, bint running) except *
    cpdef object open(self)
    cdef object _tick_begins(self)
    cdef object _tick_ends(self)
    cdef object _time(self, bint on)
    cpdef object close(self)
    @cython.locals(now=cython.longlong)
    cdef object _stamp(self, Runnable runnable, int source, bint timed)
    @cython.locals(stamped=tuple, now=cython.longlong, histogram=Histogram)
    cdef object _begin(self, Runnable runnable, int source)
    @cython.locals(ran_ns=cython.longlong, began_at=cython.longlong, histogram=Histogram, source=int)
    cdef object _end(self, Runnable runnable)
    @cython.locals(version=cython.longlong, now=cython.longlong, idle_ns=cython.longlong, active_ns=cython.longlong,
                   mark=cython.longlong, waiting=bint, running=bint)
    cpdef tuple _times(self)
    @cython.locals(window_ns=cython.longlong)
    cdef object _choose_window(self)
