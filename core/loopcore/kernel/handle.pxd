cimport cython

from cpython.object cimport PyObject

from loopcore.kernel.contexts cimport SharedContexts, begin_turn
from loopcore.kernel.runnable cimport Runnable
from loopcore.native.contexts cimport own


cdef class Handle(Runnable):
    cdef public object _callback
    cdef public tuple _args
    cdef object _kept_context
    cdef public object _loop
    cdef public bint _cancelled
    cdef bint _shares_context
    cdef public object _source_traceback
    cdef public object _repr
    cdef object __weakref__

    cpdef object _run(self)
    cdef object _fail(self)
    cdef object _stop_sharing(self)
    cpdef object _report(self, object exc)
    cpdef object cancel(self)
    cpdef list _describe(self)


cdef class TimerHandle(Handle)


cdef class TimerKeeper:
    cdef public bint debug

    cpdef object note_cancelled(self, TimerHandle timer)


# 112 bytes and the collector's 16: with eight more, each would take 144.
cdef class TimerHandle(Handle):
    cdef public double _when
    cdef int _place
    cdef public bint _scheduled
    cdef TimerKeeper _keeper

    @cython.locals(keeper=TimerKeeper)
    cpdef object cancel(self)
    cpdef list _describe(self)


@cython.locals(handle=Handle)
cpdef Handle make_handle(object callback, tuple args, object loop, object context)
@cython.locals(handle=Handle)
cdef Handle make_soon(object callback, tuple args, object loop, object context, SharedContexts contexts)
cdef object run_soon(Handle handle, SharedContexts contexts)
cdef object use_again(Handle handle)
@cython.locals(timer=TimerHandle)
cpdef TimerHandle make_timer(
    double when, object callback, tuple args, object loop, object context, bint shares_context
)


cdef inline object begin_turn_of(Handle handle, SharedContexts contexts):
    context = begin_turn(contexts, <PyObject *>handle._kept_context)
    handle._kept_context = None
    return context


cdef inline object own_context(Handle handle):
    return own(<PyObject *>handle._kept_context)
