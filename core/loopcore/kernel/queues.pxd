cimport cython

from loopcore.kernel.handle cimport Handle, TimerHandle
from loopcore.kernel.inbox cimport Inbox
from loopcore.kernel.loop_stats cimport LoopStats
from loopcore.kernel.meter cimport CallbackSampler
from loopcore.kernel.ready cimport MicrotaskQueues, ReadyQueue
from loopcore.kernel.runnable cimport Runnable
from loopcore.kernel.timers cimport TimerHeap

cdef int _CLOSED
cdef int _IDLE
cdef int _DEBUG
cdef int _WATCHING_HANDLES
cdef int _WATCHING_TICKS
cdef int _THREADSAFE
cdef bint _PUSHES_DIRECTLY


cdef class Queues:
    cdef readonly ReadyQueue ready
    cdef readonly TimerHeap timers
    cdef readonly Inbox inbox
    cdef readonly MicrotaskQueues microtasks
    cdef readonly object phase_callbacks
    cdef readonly object probes
    cdef readonly object clock
    cdef public double slow_callback_duration
    cdef readonly bint watching
    cdef readonly bint watching_transports
    cdef public long long bytes_received
    cdef public long long bytes_sent
    cdef public Py_ssize_t unflushed
    cdef readonly LoopStats stats
    cdef int _slow_path_flags
    cdef bint _observed
    cdef bint _timing
    cdef bint _window_is_open
    cdef CallbackSampler _sampler
    cdef bint _microtasks_pending
    cdef bint _has_phase_callbacks
    cdef bint _native_clock
    cdef double _time_read
    cdef readonly object _thread_id
    cdef unsigned long _owner
    cdef bint _waiting
    cdef list _immediates
    cdef list _flushes
    cdef list _closing
    cdef object __weakref__

    cdef double _now(self) except? -1
    cpdef bint _is_elsewhere(self)
    cdef int schedule(self, object callback, tuple args, object context) except -1
    cdef int _flush_soon(self, Runnable runnable) except -1
    cpdef object close_soon(self, object resource)
    cdef int _check(self, object callback, str method) except -1
    cdef int _check_caller(self) except -1
    @cython.locals(handles=list, handle=Handle)
    cdef object _empty_inbox(self)
    cdef int _empty_inbox_while_idle(self) except -1
    @cython.locals(direct=bint)
    cdef int _post(self, Handle handle) except -1
    cdef int _note_late(self, Handle handle) except -1
    cdef object _rest(self)
    cdef int _set_slow_path_flag(self, int flag, bint on) except -1
    cdef int _note_observers(self) except -1
    cdef int _set_timing(self, bint on) except -1
    cdef TimerHandle _set_timer(self, double when, object callback, tuple args, object context, str method)
    cdef Handle _make(self, object callback, tuple args, object context, str source, str method)
    cdef Handle _make_watched(self, object callback, tuple args, object context, str source, str method)
