cimport cython

from loopcore.kernel.handle cimport Handle, TimerHandle
from loopcore.kernel.readiness cimport Registration
from loopcore.kernel.runnable cimport Runnable
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.ports.operations cimport Operation

cdef list _NO_EVENTS
cdef double _NEVER
cdef int _DUE
cdef double _LONGEST
cdef long long _RECEIVE_BUDGET
cdef long long _NO_BUDGET
cdef int _READABLE
cdef int _WRITABLE
cdef str _IDLE
cdef str _PREPARE
cdef str _CHECK
cdef int _PHASE
cdef int _FLUSH


@cython.locals(timeout=double)
cdef list begin_tick(Scheduler loop)
cdef bint has_work(Scheduler loop) except -1
@cython.locals(deadline=double)
cdef double time_to_deadline(Scheduler loop) except? -2
@cython.locals(events=list)
cdef list poll(Scheduler loop, double timeout)
@cython.locals(limit=double, due=list, timer=TimerHandle)
cdef int collect_due(Scheduler loop, double now) except -1
cdef int run_phases(Scheduler loop) except -1
@cython.locals(count=Py_ssize_t, _=Py_ssize_t, runnable=Runnable)
cdef int run_pending(Scheduler loop) except -1
@cython.locals(events=list, tick=cython.longlong, enough=cython.longlong, count=int, position=Py_ssize_t, bits=int)
cdef int run_io(Scheduler loop) except -1
@cython.locals(entry=Registration, count=int)
cdef int run_ready(Scheduler loop, object fd, int bits, long long tick) except -1
@cython.locals(entry=Registration, later=list, kept=list, count=int, bits=int)
cdef int defer_events(Scheduler loop, list events, Py_ssize_t position, long long tick) except -1
@cython.locals(operation=Operation, more=bint, tick=cython.longlong, count=int, position=Py_ssize_t)
cdef int run_completions(Scheduler loop, list events) except -1
cdef int run_completion(Scheduler loop, Operation operation, object result, bint more, long long tick) except -1
@cython.locals(immediates=list, position=Py_ssize_t, runnable=Runnable)
cdef int run_check(Scheduler loop) except -1
@cython.locals(entries=list, handle=Handle, outer=int, position=Py_ssize_t)
cdef int run_phase_callbacks(Scheduler loop, str phase) except -1
@cython.locals(due=list, position=Py_ssize_t, runnable=Runnable)
cdef int run_timers(Scheduler loop) except -1
@cython.locals(runnable=Runnable, _=Py_ssize_t)
cdef int run_flushes(Scheduler loop) except -1
@cython.locals(runnable=Runnable, _=Py_ssize_t)
cdef int flush_after_error(Scheduler loop) except -1
@cython.locals(outer=int)
cdef int flush_early(Scheduler loop) except -1
@cython.locals(closing=list, count=int)
cdef int run_closing(Scheduler loop) except -1
@cython.locals(timer=TimerHandle)
cdef int defer_timers(Scheduler loop) except -1
