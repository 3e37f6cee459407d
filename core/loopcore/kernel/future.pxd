cimport cython
from cpython.object cimport PyObject

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.kernel.runnable cimport Runnable
from loopcore._native.attributes cimport open_dict

cdef int _PENDING
cdef int _CLOSED
cdef int _WATCHING_HANDLES
cdef int _CANCELLED
cdef int _FINISHED


cdef class Future(Runnable):
    cdef public object _loop
    cdef Scheduler _scheduler
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
    cdef public object _public
    cdef object __weakref__
    cdef PyObject *_instance_dict

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
    cdef int _announce_wakeups(self, list waiters) except -1


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


cdef object as_public(Future future)


cdef inline object set_class_up():
    cdef Future sample = Future.__new__(Future)
    open_dict(Future, <char *>&sample._instance_dict - <char *><PyObject *>sample)
