cimport cython

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.services.transport_table cimport TransportTable
from loopcore.transports.accepted cimport AcceptedSocket
from loopcore.transports.clients cimport detach
from loopcore.transports.flow cimport FlowControl


cdef int _OPEN
cdef int _CLOSING
cdef int _LOST
cdef int _CLOSED


cpdef dict initial_extra_info(object sock, dict extra)

cdef class Connection(FlowControl):
    cdef public dict _extra
    cdef public object _server
    cdef object _transport_table
    cdef public int _state
    cdef public bint _paused
    cdef public bint _refuses
    cdef public bint _awaits_drain
    cdef public object _empty_waiter

    cdef object _begin(self, Scheduler loop, dict extra)
    cdef object _own_descriptor(self)
    cdef object _open_soon(self, object connection_made, object waiter)
    cpdef object set_protocol(self, object protocol)
    cdef object _resolve_extra(self, object name)
    cpdef object _start_reading(self)
    cdef object _start_receiving(self)
    cdef object _reading_changed(self, object what, object verb)
    cdef object _run(self)
    cdef object _on_written(self)
    cdef object _drained(self)
    cpdef object close(self)
    cpdef object _finish_closing(self)
    cpdef object _abort(self, bint is_open)
    cpdef object _failed(self, object exc, object message)
    cpdef object _force_close(self, object exc)
    cdef object _stop_reading(self)
    cpdef object _lose(self, object exc)
    @cython.locals(table=TransportTable)
    cpdef object _drop_references(self)
