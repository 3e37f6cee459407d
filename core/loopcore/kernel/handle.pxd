cimport cython

from loopcore._native.threads cimport shared
from loopcore.kernel.runnable cimport Runnable

cdef int _SOON
cdef int _TIMER
cdef bint _IS_SAFE


cdef class Handle(Runnable):
    cdef public object _callback
    cdef public tuple _args
    cdef public object _context
    cdef public object _loop
    cdef public bint _cancelled
    cdef public object _source_traceback
    cdef public str _repr
    cdef object __weakref__

    cpdef object _run(self)
    cdef int _call(self) except -1
    cdef int _source(self) except -1
    cdef object _work(self)
    cdef int _discard(self) except -1
    cpdef object _report(self, object exc)
    cpdef object cancel(self)
    cpdef list _describe(self)


cdef class ThreadSafeHandle(Handle):
    cdef shared _runner
    cdef shared _revoked

    cpdef object _run(self)
    cpdef object cancel(self)
    cdef int _wait_for_runner(self) except -1
    cdef object _work(self)
    cpdef list _describe(self)


cdef class TimerHandle(Handle)


cdef class TimerKeeper:
    cdef public bint debug

    cpdef object note_cancelled(self, TimerHandle timer)


# 112 bytes, and 16 for the collector: with 8 more, each timer would take 144.
cdef class TimerHandle(Handle):
    cdef public double _when
    cdef long long _sequence
    cdef TimerKeeper _keeper

    cdef int _source(self) except -1
    @cython.locals(keeper=TimerKeeper)
    cpdef object cancel(self)
    cpdef list _describe(self)


cdef int _fill(Handle handle, object callback, tuple args, object loop, object context) except -1
@cython.locals(handle=Handle)
cpdef Handle make_handle(object callback, tuple args, object loop, object context)
@cython.locals(handle=ThreadSafeHandle)
cdef Handle make_posted(object callback, tuple args, object loop, object context)
@cython.locals(timer=TimerHandle)
cpdef TimerHandle make_timer(double when, object callback, tuple args, object loop, object context)
