cimport cython

from loopcore.kernel.handle cimport Handle
from loopcore.kernel.observers cimport Observers
from loopcore.kernel.runnable cimport Runnable
from loopcore.kernel.running cimport CallbackRunner
from loopcore.kernel.scheduler cimport Scheduler

cdef int _DEBUG
cdef int _WATCHING_HANDLES
cdef int _WATCHING_TICKS
cdef int _NEXT_TICK
cdef int _MICROTASK
cdef int _READY
cdef int _BEGINS
cdef int _ENDS
cdef int _TICK_BEGINS
cdef int _TICK_ENDS
cdef int _WAIT_BEGINS
cdef int _WAIT_ENDS
cdef list _NO_EVENTS
cdef str _IDLE
cdef str _PREPARE
cdef str _PENDING
cdef str _IO
cdef str _CHECK
cdef str _TIMERS
cdef str _CLOSE
cdef int _SOURCE_OF_IO
cdef int _IMMEDIATE
cdef int _TIMER
cdef int _FLUSH


cdef class ObservedRunner(CallbackRunner):
    cdef Scheduler _loop
    cdef Observers _observers

    cdef object _call_observed(self, Runnable runnable, int source)


cdef object run_watched(Scheduler loop, Runnable runnable)
cdef object begin_tick_observed(Scheduler loop)
@cython.locals(outer_source=int)
cdef object run_phases_observed(Scheduler loop)
cdef object _run_phase(Scheduler loop, str phase, int source, bint has_work)
@cython.locals(count=int)
cdef int _run_work_of(Scheduler loop, str phase) except -1
cdef list wait_observed(Scheduler loop, double timeout)
cdef double _ask_timeout(Scheduler loop, double timeout) except? -2
@cython.locals(sooner=double)
cdef double _recheck_timeout(Scheduler loop, double timeout) except? -2
cdef list _wait_measured(Scheduler loop, double timeout)
