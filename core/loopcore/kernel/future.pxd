cimport cython
from cpython.object cimport PyObject

from loopcore.kernel.current cimport has_itself
from loopcore.kernel.contexts cimport snapshot_of
from loopcore.kernel.handle cimport Handle, make_soon
from loopcore.kernel.reactor cimport Reactor
from loopcore.kernel.ready cimport push_last
from loopcore.kernel.runnable cimport Runnable
from loopcore.native.attributes cimport open_dict
from loopcore.native.contexts cimport own

cdef int _PENDING
cdef int _CANCELLED
cdef int _FINISHED


cdef class Future(Runnable):
    cdef public object _loop
    cdef Reactor _reactor
    cdef signed char _status
    cdef signed char _log_traceback_flag
    cdef signed char _waiter_shares
    cdef public bint _asyncio_future_blocking
    cdef public object _result
    cdef public object _exception
    cdef object _exception_traceback
    cdef object _waiter
    cdef object _waiter_context
    cdef list _callback_list
    cdef public object _cancel_message
    cdef public object _source_traceback
    cdef object __weakref__
    cdef PyObject *_instance_dict

    cdef int _check_change(self) except -1
    cdef int _check_initialized(self) except -1
    cdef bint _cancel(self, object msg) except -1
    cdef object _cancelled_error(self)
    cdef object _outcome(self)
    cdef int _set_result(self, object result) except -1
    cdef int _set_exception(self, object exception) except -1
    cdef int _add_waiter(self, Runnable waiter) except -1
    cdef int _add_callback(self, object callback, object context) except -1
    cdef int _notify(self, object callback, object context) except -1
    cdef int _announce_wake(self, Runnable waiter) except -1
    cdef int _schedule_callbacks(self) except -1
    cdef object _report_unseen(self)


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
cpdef Future make_future(Reactor loop)


# Whether callbacks of a future that is done need no `call_soon`: nobody looks on, and nobody has replaced it
# (docs/adr/0039).
cdef inline bint goes_directly(Future future) except -1:
    cdef Reactor reactor = future._reactor
    return not (reactor is None or reactor._attention or not reactor._has_own_call_soon or has_itself(reactor, "call_soon"))


# What `call_soon` does with one of them; False if it has to be called.
cdef inline bint notify_directly(Future future, object callback, object context) except -1:
    cdef Reactor reactor = future._reactor
    if not goes_directly(future):
        return False
    push_last(reactor.ready, make_soon(callback, (future,), reactor, context, reactor._contexts))
    return True


# The first callback, if it is the only one so far and its loop runs, shares a copy of the current context until it is due
# (docs/adr/0037); False if it shall have one of its own.
cdef inline bint share_first(Future future, object callback) except -1:
    cdef Reactor reactor = future._reactor
    if reactor is None or reactor._attention or future._waiter is not None or future._callback_list is not None:
        return False
    context = snapshot_of(reactor._contexts)
    # With a stale snapshot a variable may have gone, and what that called was faster.
    if future._status != _PENDING or future._waiter is not None or future._callback_list is not None:
        return False
    future._waiter = callback
    future._waiter_context = context
    future._waiter_shares = True
    return True


# Somebody is about to see its context, who may see nobody else's.
cdef inline int own_first(Future future) except -1:
    if future._waiter_shares:
        context = own(<PyObject *>future._waiter_context)
        if future._waiter_shares:  # else what was collected meanwhile has finished the future, or asked
            future._waiter_context = context
            future._waiter_shares = False
    return 0


# Schedule the first, which the future has given up, with the context that it shares; False if it shares none.
cdef inline bint notify_first(Future future, object waiter, object context) except -1:
    cdef Reactor reactor
    cdef Handle handle
    if not future._waiter_shares:
        return False
    future._waiter_shares = False
    if goes_directly(future):
        reactor = future._reactor
        handle = make_soon(waiter, (future,), reactor, context, reactor._contexts)
        handle._shares_context = True
        push_last(reactor.ready, handle)
    else:
        future._notify(waiter, own(<PyObject *>context))
    return True


cdef inline object give_instance_dicts():
    cdef Future sample = Future.__new__(Future)
    open_dict(Future, <char *>&sample._instance_dict - <char *><PyObject *>sample)
