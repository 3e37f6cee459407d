cimport cython
from cpython.object cimport PyObject

from loopcore._native.attributes cimport open_dict
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.driver cimport Driver, Sink

cdef Py_ssize_t _HIGH_WATER
cdef Py_ssize_t _LOW_WATER
cdef Py_ssize_t _JOIN_LIMIT
cdef tuple _LIMITS


cdef class FlowControl(Sink):
    cdef public Scheduler _loop
    cdef public Driver _driver
    cdef public object _protocol
    cdef public object _context
    cdef public tuple _limits
    cdef public Py_ssize_t _high_water
    cdef public Py_ssize_t _low_water
    cdef public Py_ssize_t _join_limit
    cdef public bint _protocol_paused
    cdef object __weakref__
    cdef PyObject *_instance_dict

    cdef object _work(self)
    cdef object _begin_flow(self, Scheduler loop)
    cdef Py_ssize_t _unsent(self) except -1
    cdef object _offer(self)
    cdef object _set_limits(self, object high, object low)
    cpdef object _maybe_pause_writing(self)
    cdef object _resume_if_low(self, Py_ssize_t unsent)
    cpdef object _resume_protocol(self)
    cdef object _call_flow(self, str name)
    cpdef object _report(self, object exc, object message)


cdef inline object give_instance_dicts():
    cdef FlowControl sample = FlowControl.__new__(FlowControl)
    open_dict(FlowControl, <char *>&sample._instance_dict - <char *><PyObject *>sample)
