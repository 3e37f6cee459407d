cimport cython

from loopcore.direct cimport listed
from loopcore.kernel.completions cimport Completions
from loopcore.kernel.current cimport TaskQueues
from loopcore.kernel.handle cimport Handle, TimerHandle
from loopcore.kernel.meter cimport CallbackSampler
from loopcore.kernel.readiness cimport Readiness, Registration, near_reader
from loopcore.kernel.runnable cimport Runnable
from loopcore.operations cimport Operation

cdef int _RECEIVE_BUDGET
cdef long long _NO_BUDGET
cdef int _DEBUG
cdef int _WATCHING_HANDLES
cdef int _WATCHING_TICKS
cdef int _READ
cdef int _READABLE
cdef int _WRITABLE
cdef int _READY
cdef tuple _SOURCES
cdef int _NEXT_TICK
cdef int _MICROTASK
cdef int _PHASE
cdef int _FLUSH
cdef tuple _NAMES
cdef int _PENDING_PHASE
cdef int _IO_PHASE
cdef int _CHECK_PHASE
cdef int _TIMERS_PHASE
cdef int _CLOSE_PHASE
cdef object _NO_EVENTS


# Whether the pending phase has anything to do.
@cython.nonecheck(False)
cdef inline bint is_pending(Dispatcher dispatcher) noexcept:
    return (
        dispatcher.ready._count > 0
        or dispatcher.inbox._woken
        or dispatcher._microtasks_pending
    )


# Nearly every event is only "readable", for a descriptor with a reader: it is dispatched without a look-up.
cdef inline int run_event(Dispatcher dispatcher, object event, long long tick) except -1:
    cdef Runnable reader = near_reader(dispatcher.readiness, event, _READ, tick)
    if reader is not None:
        dispatcher._run_one(reader)
        return 1
    fd, bits = event
    return dispatcher._run_ready(fd, bits, tick)


# Defer the events behind `position` to the next tick, except those for the program's own callbacks: sockets tolerate an
# event that is no longer true, the program's callbacks need not. Those run now; return how many.
cdef inline int defer_events(Dispatcher dispatcher, list events, Py_ssize_t position, long long tick) except -1:
    cdef list later = [], kept = []
    cdef Registration entry
    cdef int count = 0
    for event in events[position:]:
        entry = dispatcher.readiness.lookup(event[0])
        if entry is not None and (isinstance(entry.reader, Handle) or isinstance(entry.writer, Handle)):
            kept.append(event)
        else:
            later.append(event)
    dispatcher._deferred_events = later or None
    for event in kept:
        count += run_event(dispatcher, event, tick)
    return count


# The steps of the tick are `cdef`, not `cpdef`: a loop is an instance of a Python class, and each cpdef call would
# first check whether that class overrides the method.
cdef class Dispatcher(TaskQueues):
    cdef readonly Readiness readiness
    cdef readonly Completions completions
    cdef public long long starvations
    cdef public Py_ssize_t flush_limit
    cdef public Py_ssize_t receive_limit
    cdef bint _tick_observed
    cdef int _source
    cdef object _events
    cdef list _deferred_events
    cdef list _due
    cdef list _spare
    cdef public object _current_handle

    cdef int _finish_tick(self) except -1
    cdef int _defer_timers(self) except -1
    @cython.locals(outer=int, outer_timing=bint, phase=int)
    cdef int _process_observed(self) except -1
    cdef int _run_phase_observed(self, int phase) except -1
    cdef int _run_phase(self, int phase) except -1
    @cython.locals(outer=int)
    cdef int _run_phase_callbacks(self, int phase) except -1
    @cython.locals(count=Py_ssize_t, _=Py_ssize_t, runnable=Runnable)
    cdef int _run_pending(self) except -1
    @cython.locals(told=list, tick=cython.longlong, enough=cython.longlong, count=int, position=Py_ssize_t)
    cdef int _run_io(self) except -1
    @cython.locals(entry=Registration, count=int)
    cdef int _run_ready(self, object fd, int bits, long long tick) except -1
    @cython.locals(told=list, operation=Operation, more=bint, tick=cython.longlong, count=int, position=Py_ssize_t)
    cdef int _run_completions(self, object events) except -1
    cdef int _run_completion(self, Operation operation, object result, bint more, long long tick) except -1
    @cython.locals(immediates=list, position=Py_ssize_t, runnable=Runnable)
    cdef int _run_check(self) except -1
    @cython.locals(due=list, position=Py_ssize_t, runnable=Runnable)
    cdef int _run_timers(self) except -1
    @cython.locals(outer=int)
    cdef int _flush_early(self) except -1
    @cython.locals(flushes=list, runnable=Runnable)
    cdef object _run_flushes(self)
    @cython.locals(closing=list, count=int)
    cdef int _run_closing(self) except -1
    cdef int _run_one(self, Runnable runnable) except -1
    @cython.locals(left=Py_ssize_t, handle=Handle)
    cdef object _run_microtasks(self)
    @cython.locals(sampler=CallbackSampler, began_at=cython.longlong, seconds=double)
    cdef int _run_observed(self, Runnable runnable, int source) except -1
    cdef int _run_watched(self, Runnable runnable) except -1
    cdef int _set_window(self, bint is_open) except -1


cdef int run_phases(Dispatcher dispatcher) except -1


# Run the phases without setting up an exception handler: return 0, or -1 with an exception pending.
cdef inline int try_phases(Dispatcher dispatcher) noexcept:
    return (<int (*)(Dispatcher) noexcept>run_phases)(dispatcher)
