cimport cython

from loopcore._native.threads cimport shared
from loopcore.kernel.completions cimport Completions
from loopcore.kernel.handle cimport Handle, TimerHandle
from loopcore.kernel.inbox cimport Inbox
from loopcore.kernel.loop_clock cimport LoopClock
from loopcore.kernel.loop_stats cimport LoopStats
from loopcore.kernel.microtasks cimport MicrotaskQueues
from loopcore.kernel.observers cimport Observers
from loopcore.kernel.poller cimport Poller
from loopcore.kernel.readiness cimport Readiness
from loopcore.kernel.ready cimport ReadyQueue
from loopcore.kernel.runnable cimport Runnable
from loopcore.kernel.running cimport CallbackRunner
from loopcore.kernel.task_makers cimport ClassTasks
from loopcore.kernel.timers cimport TimerHeap

cdef int _CLOSED
cdef int _NOT_RUNNING
cdef int _DEBUG
cdef int _WATCHING_HANDLES
cdef int _WATCHING_TICKS
cdef int _THREADSAFE
cdef int _READY
cdef int _QUEUED
cdef int _POSTED
cdef int _CALLBACKS
cdef int _TICKS
cdef int _WAITS
cdef list _NO_EVENTS


# The methods of the tick are `cdef`, not `cpdef`: a loop is an instance of a Python class, and each cpdef call would
# first check whether that class overrides the method.
cdef class Scheduler:
    cdef readonly ReadyQueue _ready
    cdef readonly TimerHeap _timers
    cdef readonly Inbox _inbox
    cdef readonly MicrotaskQueues _microtasks
    cdef readonly object _phase_callbacks
    cdef readonly object probes
    cdef readonly LoopStats _stats
    cdef readonly Poller _poller
    cdef readonly Readiness _readiness
    cdef readonly Completions _completions
    cdef public ClassTasks _tasks
    cdef public double slow_callback_duration
    cdef public Py_ssize_t flush_limit
    cdef public Py_ssize_t receive_limit
    cdef public long long _bytes_received
    cdef public long long _bytes_sent
    cdef public Py_ssize_t _unflushed
    cdef readonly bint _watching_transports
    cdef shared _slow_path_flags
    cdef bint _tick_observed
    cdef bint _has_phase_callbacks
    cdef bint _stopping
    cdef shared _waiting
    cdef shared _owner
    cdef LoopClock _clock
    cdef CallbackRunner _runner
    cdef CallbackRunner _plain_runner
    cdef object _observed_runner
    cdef readonly Observers _observers
    cdef object _sampler
    cdef object _policy
    cdef object _task_factory
    cdef list _immediates
    cdef ReadyQueue _flushes
    cdef list _closing
    cdef list _events
    cdef list _deferred_events
    cdef list _due
    cdef int _source
    cdef public object _current_handle
    cdef object __weakref__

    cpdef bint _is_elsewhere(self)
    cdef int _schedule(self, object callback, tuple args, object context) except -1
    cdef int _flush_soon(self, Runnable runnable) except -1
    cdef bint _take_flush(self, Runnable runnable) except -1
    cpdef object _close_soon(self, object resource)
    cdef TimerHandle _set_timer(self, double when, object callback, tuple args, object context, str method)
    cdef Handle _make_handle(self, object callback, tuple args, object context, str source, str method)
    cdef Handle _make_checked_handle(
        self, object made, object callback, tuple args, object context, str source, str method
    )
    cdef int _check_call(self, object callback, str method) except -1
    cdef int _check_thread(self) except -1
    cdef object _empty_inbox(self)
    cdef int _empty_inbox_while_idle(self) except -1
    cdef object _create_by_rule(self, object coro, object name, object context, dict options)
    cdef int _drop_all(self) except -1
    cdef int _check_initialized(self) except -1
    cdef int _run_first_phases(self) except -1
    cdef list _wait(self, double timeout)
    cdef int _finish_tick(self) except -1
    cpdef object _stop_measuring(self, object sampler)
    cdef int _set_slow_path_flag(self, int flag, bint on) except -1
    @cython.locals(wants=int, observed=bint)
    cpdef object _note_observers(self)
