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


cdef class Reactor(Queues):
    cdef readonly object backend
    cdef readonly Readiness readiness
    cdef public Py_ssize_t poll_skip_ticks
    cdef public double poll_skip_time
    cdef public long long starvations
    cdef object _events
    cdef list _due
    cdef bint _stopping
    cdef Py_ssize_t _skipped
    cdef double _polled_at
    cdef double _clock_resolution

    cpdef object tick(self)
    @cython.locals(now=double, timeout=double)
    cpdef object poll_events(self)
    cpdef object process_events(self, object events)
    cpdef object process_ready(self)
    cpdef object _process_watched(self)
    cpdef int _run_phase(self, str phase) except -1
    cpdef bint _has_work(self)
    @cython.locals(deadline=double)
    cpdef double _time_to_deadline(self, double now)
    cpdef object _poll(self, double timeout)
    cpdef object _collect_due(self, double now)
    cpdef int _run_phase_callbacks(self, str phase) except -1
    cpdef int _run_pending(self) except -1
    @cython.locals(entry=Registration, bits=int, count=int)
    cpdef int _run_io(self) except -1
    cpdef int _run_check(self) except -1
    cpdef int _run_timers(self) except -1
    cpdef int _run_close(self) except -1
    cpdef int _run_closing(self) except -1
    @cython.locals(position=Py_ssize_t, count=Py_ssize_t)
    cpdef int _run_batch(self, list batch) except -1
    cpdef object _run_one(self, Runnable runnable)
    cpdef object _run_watched(self, Runnable runnable)
    @cython.locals(left=Py_ssize_t, handle=Handle)
    cpdef object _run_urgent(self)
