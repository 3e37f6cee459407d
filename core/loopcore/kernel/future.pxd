cimport cython
from cpython.object cimport PyObject

from loopcore.kernel.current cimport has_itself
from loopcore.kernel.handle cimport make_soon
from loopcore.kernel.reactor cimport Reactor
from loopcore.kernel.runnable cimport Runnable
from loopcore.native.attributes cimport open_dict

cdef int _PENDING
cdef int _CANCELLED
cdef int _FINISHED


cdef class Future(Runnable):
    cdef public object _loop
    cdef Reactor _reactor
    cdef signed char _status
    cdef signed char _log_traceback_flag
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

    cdef object _check_change(self)
    cdef object _check_initialized(self)
    cdef bint _cancel(self, object msg) except -1
    cdef object _cancelled_error(self)
    cdef object _outcome(self)
    cdef object _set_result(self, object result)
    cdef object _set_exception(self, object exception)
    cdef object _add_waiter(self, Runnable waiter)
    cdef object _add_callback(self, object callback, object context)
    cdef object _notify(self, object callback, object context)
    cdef object _announce_wake(self, Runnable waiter)
    cdef object _schedule_callbacks(self)
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


# What `call_soon` does with a callback of a future that is done, where nobody looks on and nobody has replaced it
# (docs/adr/0039); False if it has to be called.
cdef inline bint notify_directly(Future future, object callback, object context) except -1:
    cdef Reactor reactor = future._reactor
    if reactor is None or reactor._attention or not reactor._has_own_call_soon or has_itself(reactor, "call_soon"):
        return False
    reactor.ready.push(make_soon(callback, (future,), reactor, context, reactor._contexts))
    return True


cdef inline object give_instance_dicts():
    cdef Future sample = Future.__new__(Future)
    open_dict(Future, <char *>&sample._instance_dict - <char *><PyObject *>sample)
