cimport cython

from cpython.object cimport PyObject

from loopcore.kernel.contexts cimport ContextPool, acquire_context
from loopcore.kernel.runnable cimport Runnable
from loopcore.native.contexts cimport is_as_new, own
from loopcore.native.cpython cimport raise_pending  # the C code below needs its definitions


cdef bint _THREADS_CANCEL
cdef dict _turns


cdef class Handle(Runnable):
    cdef public object _callback
    cdef public tuple _args
    cdef object _kept_context
    cdef public object _loop
    cdef public bint _cancelled
    cdef unsigned char _shares_context
    cdef unsigned char _takes_turns
    cdef public object _source_traceback
    cdef public object _repr
    cdef object __weakref__

    cpdef object _run(self)
    cdef Runnable _as_public_handle(self)
    cdef int _run_in_turn(self) except -1
    cdef int _await_turn(self) except -1
    cdef int _call(self) except -1
    cdef int _fail(self) except -1
    cdef int _stop_sharing(self) except -1
    cpdef object _report(self, object exc)
    cpdef object cancel(self)
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

    @cython.locals(keeper=TimerKeeper)
    cpdef object cancel(self)
    cpdef list _describe(self)


cdef extern from *:
    """
    /* Reset a handle, so that it refers to nothing, like a new one. */
    #define loopcore_empty_handle(handle) \
        do { \
            (handle)->_cancelled = 0; \
            (handle)->_shares_context = 0; \
            (handle)->_takes_turns = 0; \
            Py_SETREF((handle)->_callback, loopcore_none()); \
            Py_SETREF((handle)->_args, loopcore_none()); \
            Py_SETREF((handle)->_kept_context, loopcore_none()); \
            Py_SETREF((handle)->_loop, loopcore_none()); \
        } while (0)
    """
    void empty_handle "loopcore_empty_handle" (Handle handle) noexcept


@cython.locals(handle=Handle)
cpdef Handle make_handle(object callback, tuple args, object loop, object context)
@cython.locals(handle=Handle)
cdef int allow_cancel_in_threads(Handle handle) except -1
@cython.locals(handle=Handle)
cdef Handle new_handle(object callback, tuple args, object loop, object context, ContextPool contexts)
@cython.locals(callback=cython.p_void, args=cython.p_void)
cdef int run_handle(Handle handle, ContextPool contexts) except -1
cdef int run_timer(TimerHandle timer, ContextPool contexts) except -1
cdef int run_entry(Runnable runnable, ContextPool contexts) except -1
cdef int use_again(Handle handle) except -1
cdef int report_failed(object callback, object argument, object loop, object context) except -1
@cython.locals(shares=bint)
cdef TimerHandle set_timer(
    double when, object callback, tuple args, object loop, object context, ContextPool contexts
)
@cython.locals(timer=TimerHandle)
cpdef TimerHandle make_timer(
    double when, object callback, tuple args, object loop, object context, bint shares_context
)


@cython.nonecheck(False)
cdef inline object acquire_context_of(Handle handle, ContextPool contexts):
    context = acquire_context(contexts, <PyObject *>handle._kept_context)
    if context is handle._kept_context:
        handle._kept_context = None  # the caller, which enters the context, has the only reference
    return context


# As `release_context`, for timers that shared a context: timers are due in groups, maybe long after their template is
# gone.
@cython.nonecheck(False)
cdef inline void release_context_of(TimerHandle timer, ContextPool contexts, object context) noexcept:
    if timer._kept_context is not None and is_as_new(context, <PyObject *>timer._kept_context):
        contexts._spare = context


cdef inline void *borrowed(object what) noexcept:
    return <void *>what


cdef inline object own_context(Handle handle):
    return own(<PyObject *>handle._kept_context)
