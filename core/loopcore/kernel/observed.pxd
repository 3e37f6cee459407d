cimport cython

from loopcore.kernel.handle cimport Handle
from loopcore.kernel.meter cimport CallbackSampler
from loopcore.kernel.runnable cimport Runnable
from loopcore.kernel.running cimport CallbackRunner
from loopcore.kernel.scheduler cimport Scheduler

cdef int _DEBUG
cdef int _WATCHING_HANDLES
cdef int _WATCHING_TICKS
cdef int _NEXT_TICK
cdef int _MICROTASK
cdef dict _SOURCES
cdef tuple _AFTER_THE_WAIT


cdef class ObservedRunner(CallbackRunner):
    cdef Scheduler _loop

    @cython.locals(loop=Scheduler, sampler=CallbackSampler, began_at=cython.longlong, seconds=double)
    cdef object _call_observed(self, Runnable runnable, int source)


cdef object run_watched(Scheduler loop, Runnable runnable)
cdef object begin_tick_observed(Scheduler loop)
@cython.locals(sampler=CallbackSampler, outer_source=int, outer_timing=bint)
cdef object run_phases_observed(Scheduler loop)
cdef object _run_phase(Scheduler loop, str phase)
@cython.locals(count=int)
cdef int _run_work_of(Scheduler loop, str phase) except -1
@cython.locals(sampler=CallbackSampler)
cdef object _set_timing(Scheduler loop, bint on)
cdef list wait_observed(Scheduler loop, double timeout)
cdef double _ask_timeout(Scheduler loop, double timeout) except? -2
@cython.locals(sooner=double)
cdef double _as_it_is_now(Scheduler loop, double timeout) except? -2
@cython.locals(sampler=CallbackSampler)
cdef list _wait_measured(Scheduler loop, double timeout)
@cython.locals(sampler=CallbackSampler)
cdef object _open_window_if_due(Scheduler loop)
