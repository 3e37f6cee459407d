cimport cython

from loopcore.direct cimport how_many, wait_in
from loopcore.kernel.handle cimport TimerHandle
from loopcore.kernel.meter cimport CallbackSampler
from loopcore.kernel.policies cimport PolicyDispatcher

cdef int _CLOSED
cdef int _IDLE
cdef int _WATCHING_TICKS
cdef double _NEVER
cdef int _CLOCK_TICKS
cdef int _IDLE_PHASE
cdef int _PREPARE_PHASE
cdef object _NO_EVENTS


cdef class Reactor(PolicyDispatcher):
    cdef public object backend
    cdef object _port
    cdef public Py_ssize_t poll_skip_ticks
    cdef public double poll_skip_time
    cdef bint _poll_observed
    cdef bint _shortens_waits
    cdef bint _stopping
    cdef bint _rested
    cdef double _skipping_since
    cdef double _clock_resolution

    cdef int _demand_init(self) except -1
    @cython.locals(timeout=double)
    cdef object _begin_tick(self)
    @cython.locals(now=double)
    cdef bint _polls_now(self) except -1
    cdef bint _has_work(self) except -1
    @cython.locals(deadline=double)
    cdef double _time_to_deadline(self) except? -2
    cdef object _poll(self, double timeout)
    cdef object _wait(self, double timeout)
    cdef object _poll_as_observed(self, double timeout)
    cdef double _shorten(self, double timeout) except? -2
    @cython.locals(sooner=double)
    cdef double _as_it_is_now(self, double timeout) except? -2
    @cython.locals(sampler=CallbackSampler, was_read=bint, now=double)
    cdef object _poll_measured(self, double timeout)
    @cython.locals(due=list, timer=TimerHandle)
    cdef int _collect_due(self, double now) except -1
    cdef int _drop_all(self) except -1
    cdef int _stop_measuring(self) except -1
    cdef int _open_window(self) except -1


# Whether a wait without a timeout can begin at once: no work is left (see `_has_work`), and nothing to release before
# it.
@cython.nonecheck(False)
cdef inline bint is_at_rest(Reactor reactor) noexcept:
    return not (
        reactor.ready._count
        or reactor.inbox._woken
        or reactor._microtasks_pending
        or reactor._immediates
        or reactor._flushes
        or reactor._closing
        or reactor._has_phase_callbacks
        or reactor._order is not None
        or reactor._deferred_events is not None
        or reactor._leave_deferred
        or reactor._stopping
        or reactor.timers.earliest != _NEVER
    )
