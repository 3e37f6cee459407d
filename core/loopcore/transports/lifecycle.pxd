from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.flow cimport FlowControl


cpdef dict known_facts(object sock, dict extra)

cdef class Connection(FlowControl):
    cdef public dict _extra
    cdef public object _server
    cdef public int _state
    cdef public bint _refuses
    cdef public bint _awaits_drain
    cdef public object _empty_waiter

    cdef object _begin(self, Scheduler loop, object sock, dict extra)
    cpdef object set_protocol(self, object protocol)
    cdef object _find_out(self, object name)
    cpdef object close(self)
    cpdef object _failed(self, object exc, object message)
    cpdef object _force_close(self, object exc)
    cdef object _stop_reading(self)
    cpdef object _lose(self, object exc)
    cpdef object _let_go(self)
