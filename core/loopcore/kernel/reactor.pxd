cimport cython

from loopcore.kernel.handle cimport Handle
from loopcore.kernel.queues cimport Queues
from loopcore.kernel.readiness cimport Readiness, Registration
from loopcore.kernel.runnable cimport Runnable

cdef int _CLOSED
cdef int _IDLE
cdef int _DEBUG
cdef int _WATCHING_HANDLES
cdef int _WATCHING_TICKS
cdef int _READABLE
cdef int _WRITABLE
cdef double _NEVER
cdef int _CLOCK_TICKS


# The steps of the tick are `cdef`, not `cpdef`: a loop is an instance of a Python class, and each cpdef call
# on it would first look whether that class overrides the method.
cdef class Reactor(Queues):
    cdef public object backend
    cdef readonly Readiness readiness
    cdef public Py_ssize_t poll_skip_ticks
    cdef public double poll_skip_time
    cdef public long long starvations
    cdef object _events
    cdef list _due
    cdef bint _stopping
    cdef Py_ssize_t _skipped
    cdef double _skipping_since
    cdef double _clock_resolution
    cdef public object _current_handle

    cdef object _begin_tick(self)
    cdef object _finish_tick(self)
    cdef object _put_off_timers(self)
    cdef object _process_watched(self)
    cdef int _run_phase(self, str phase) except -1
    @cython.locals(now=double)
    cdef bint _has_skipped_too_long(self) except -1
    cdef bint _has_work(self) except -1
    @cython.locals(deadline=double)
    cdef double _time_to_deadline(self) except? -2
    cdef object _poll(self, double timeout)
    cdef object _poll_watched(self, object timeout)
    @cython.locals(due=list)
    cdef object _collect_due(self, double now)
    cdef int _run_phase_callbacks(self, str phase) except -1
    @cython.locals(count=Py_ssize_t, _=Py_ssize_t, runnable=Runnable)
    cdef int _run_pending(self) except -1
    @cython.locals(entry=Registration, bits=int, tick=cython.longlong, count=int)
    cdef int _run_io(self) except -1
    cdef int _run_check(self) except -1
    cdef int _run_timers(self) except -1
    cdef int _run_close(self) except -1
    cdef object _run_flushes(self)
    cdef object _drop_all(self)
    @cython.locals(closing=list, count=int)
    cdef int _run_closing(self) except -1
    @cython.locals(position=Py_ssize_t, runnable=Runnable)
    cdef int _run_batch(self, list batch) except -1
    cdef object _run_one(self, Runnable runnable)
    @cython.locals(left=Py_ssize_t, handle=Handle)
    cdef object _run_urgent(self)
