cimport cython
from cpython.object cimport PyObject

from loopcore.kernel.contexts cimport acquire_context, release_context, template_of
from loopcore.kernel.current cimport has_itself
from loopcore.kernel.handle cimport make_handle, new_handle, report_failed
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.kernel.ready cimport push_last
from loopcore.kernel.runnable cimport Runnable
from loopcore.native.attributes cimport open_dict
from loopcore.native.contexts cimport call_for_in_context, own
from loopcore.native.task_freelist cimport use_freelist
from loopcore.native.tracking cimport untrack

cdef int _PENDING
cdef int _CLOSED
cdef int _CANCELLED
cdef int _FINISHED


cdef class Future(Runnable):
    cdef public object _loop
    cdef Scheduler _reactor
    cdef signed char _status
    cdef signed char _log_traceback_flag
    cdef signed char _waiter_shares
    cdef signed char _is_due
    cdef public bint _asyncio_future_blocking
    cdef public object _result
    cdef public object _exception
    cdef object _exception_traceback
    cdef object _waiter
    cdef object _waiter_context
    cdef list _callback_list
    cdef public object _cancel_message
    cdef public object _source_traceback
    cdef public object _shown
    cdef object __weakref__
    cdef PyObject *_instance_dict

    cdef object _run(self)
    cdef Runnable _as_public_handle(self)
    cdef int _check_change(self) except -1
    cdef int _check_initialized(self) except -1
    cdef bint _cancel(self, object msg) except -1
    cdef object _cancelled_error(self)
    cdef object _outcome(self)
    cdef int _set_result(self, object result) except -1
    cdef int _set_exception(self, object exception) except -1
    @cython.locals(added=list)
    cdef int _add_callback(self, object callback, object context) except -1
    cdef int _notify(self, object callback, object context) except -1
    cdef int _schedule_callbacks(self) except -1


@cython.final
@cython.freelist(64)
cdef class FutureIterator:
    cdef Future _future
    cdef bint _asked

    @cython.locals(future=Future)
    cpdef object send(self, object value)


@cython.locals(iterator=FutureIterator)
cdef object _iterate(Future future)

@cython.locals(future=Future)
cpdef Future make_future(Scheduler loop)


cdef extern from *:
    """
    /* Reset a future, so that it refers to nothing, like a new one. */
    #define loopcore_empty_future(future) \
        do { \
            loopcore_let_go((future)->_loop); \
            loopcore_let_go((future)->_reactor); \
            loopcore_let_go((future)->_result); \
            loopcore_let_go((future)->_exception); \
            loopcore_let_go((future)->_exception_traceback); \
            loopcore_let_go((future)->_waiter); \
            loopcore_let_go((future)->_waiter_context); \
            loopcore_let_go((future)->_callback_list); \
            loopcore_let_go((future)->_cancel_message); \
            loopcore_let_go((future)->_source_traceback); \
            loopcore_let_go((future)->_shown); \
            (future)->_status = (future)->_log_traceback_flag = 0; \
            (future)->_waiter_shares = (future)->_is_due = 0; \
            (future)->_asyncio_future_blocking = 0; \
        } while (0)

    #define loopcore_take_waiter(future) loopcore_take_out(&(future)->_waiter)
    #define loopcore_take_waiter_context(future) loopcore_take_out(&(future)->_waiter_context)
    """
    void empty_future "loopcore_empty_future" (Future future) noexcept
    # Move the attribute's reference out: the attribute is empty afterwards.
    object take_waiter "loopcore_take_waiter" (Future future)
    object take_waiter_context "loopcore_take_waiter_context" (Future future)


cdef object seen(Future future)


# Whether a future that is destroyed has nothing to report; it is then emptied and kept for `make_future`.
@cython.nonecheck(False)
cdef inline bint end_future(PyObject *ended) noexcept:
    future = <Future>ended
    if future._log_traceback_flag:
        return False
    untrack(future)
    empty_future(future)
    return True


# Whether callbacks of a done future need no `call_soon`: the loop is not observed, and neither its class nor the loop
# itself has another `call_soon` (docs/adr/0004).
@cython.nonecheck(False)
cdef inline bint goes_directly(Future future) except -1:
    cdef Scheduler reactor = future._reactor
    return not (
        reactor is None
        or reactor._slow_path_flags
        or not reactor._has_own_call_soon
        or has_itself(reactor, "call_soon")
    )


# Do as `call_soon` for one callback; False if `call_soon` has to be called.
@cython.nonecheck(False)
cdef inline bint notify_directly(Future future, object callback, object context) except -1:
    cdef Scheduler reactor = future._reactor
    if not goes_directly(future):
        return False
    push_last(reactor.ready, new_handle(callback, (seen(future),), reactor, context, reactor._contexts))
    return True


# If the first callback is the only one so far and its loop runs, it shares a copy of the current context until it is
# due (docs/adr/0006). False if it needs a copy for itself.
@cython.nonecheck(False)
cdef inline bint share_first(Future future, object callback) except -1:
    cdef Scheduler reactor = future._reactor
    if reactor is None or reactor._slow_path_flags or future._waiter is not None or future._callback_list is not None:
        return False
    context = template_of(reactor._contexts)
    # Replacing a stale template may have dropped a variable, whose finalizer may have used the future first.
    if future._status != _PENDING or future._waiter is not None or future._callback_list is not None:
        return False
    future._waiter = callback
    future._waiter_context = context
    future._waiter_shares = True
    return True


# The context of the first callback is about to be seen, so it must not be a shared one.
cdef inline int own_first(Future future) except -1:
    if future._waiter_shares:
        context = own(<PyObject *>future._waiter_context)
        if future._waiter_shares:  # otherwise a finalizer has finished the future meanwhile, or asked for the context
            future._waiter_context = context
            future._waiter_shares = False
    return 0


# Schedule the only callback, which shares its context: the future itself is put on the ready queue, in place of a
# Handle (docs/adr/0007). False if it takes a `call_soon`, or if the class is a subclass, whose `_run` may mean
# something else.
@cython.nonecheck(False)
cdef inline bint notify_first(Future future) except -1:
    cdef Scheduler reactor = future._reactor
    if not future._waiter_shares or future._is_due or reactor._observed or not goes_directly(future):
        return False
    if type(future) is not Future:
        return False
    future._is_due = True
    push_last(reactor.ready, future)
    return True


# The context of the first callback, which the future has given up, for `call_soon`.
cdef inline object own_given_up(Future future, object context):
    if not future._waiter_shares:
        return context
    future._waiter_shares = False
    return own(<PyObject *>context)


# Call the callback: it is due. It is taken out first: copying a context may start a garbage collection, and code that
# then looks, or calls `__init__` again, must find no callback.
cdef inline int deliver(Future future) except -1:
    cdef Scheduler reactor = future._reactor
    future._is_due = False
    if future._waiter is None or future._status == _PENDING:
        return 0  # `__init__` was called again, and has handed the callback to a Handle
    callback, shared = take_waiter(future), take_waiter_context(future)
    future._waiter_shares = False
    context = acquire_context(reactor._contexts, <PyObject *>shared)
    shared = None
    finished = seen(future)
    future._shown = None
    if call_for_in_context(reactor._contexts._thread, context, callback, finished):
        report_failed(callback, finished, future._loop, context)
    else:
        release_context(reactor._contexts, context)
    return 0


# The callback that `deliver` would call, as a Handle for observers.
cdef inline Runnable handle_of_due(Future future):
    if not future._is_due or future._waiter is None or future._status == _PENDING:
        return future
    future._is_due = False
    own_first(future)
    callback, context = future._waiter, future._waiter_context
    future._waiter = future._waiter_context = None
    return make_handle(callback, (seen(future),), future._loop, context)


# `__init__` is called again: a Handle replaces the future in the ready queue. If the future was taken out just now, the
# Handle goes unused.
cdef inline int leave_to_handle(Future future) except -1:
    cdef Scheduler reactor = future._reactor
    handle = handle_of_due(future)
    if not reactor.ready.put_in_place_of(future, handle):
        future._is_due = True
        push_last(reactor.ready, handle)
    return 0


cdef inline object set_class_up():
    cdef Future sample = Future.__new__(Future)
    open_dict(Future, <char *>&sample._instance_dict - <char *><PyObject *>sample)
    use_freelist(Future, end_future)
