cimport cython

from loopcore.transports.driver cimport StreamDriver
from loopcore.transports.flow cimport FlowControl
from loopcore.transports.stream cimport StreamTransport
from loopcore.transports.tls_engine cimport TlsEngine

cdef int LOST
cdef int OPEN
cdef int FLUSHING
cdef int SHUTDOWN
cdef int DONE


cdef class TlsSending(FlowControl):
    cdef public TlsEngine _engine
    cdef public object _carrier
    cdef public StreamTransport _plain
    cdef public object _server
    cdef public object _waiter
    cdef public object _timer
    cdef public object _handshake_timeout
    cdef public object _shutdown_timeout
    cdef public object _lost_with
    cdef public bint _connected
    cdef public bint _eof_delivered
    cdef public bint _carrier_ended
    cdef public bint _carrier_full
    cdef public bint _lost
    cdef public bint _close_requested
    cdef public bint _paused
    cdef public Py_ssize_t _read_high_water
    cdef public bint _buffered
    cdef public bint _flush_scheduled
    cdef public Py_ssize_t _lost_writes
    cdef public object _on_data
    cdef public object _on_get_buffer
    cdef public object _on_buffer_updated

    cdef object _wake_waiter(self, object exc)
    cdef object _cancel_timer(self)
    cdef object _run(self)
    @cython.locals(engine=TlsEngine, data=bytes)
    cdef object _flush(self)
    @cython.locals(plain=StreamTransport, driver=StreamDriver, sent=Py_ssize_t)
    cdef object _send(self, bytes data)
    cdef Py_ssize_t _unsent(self) except -1
    cdef object _offer(self)
    @cython.locals(engine=TlsEngine, state=int)
    cdef object _begin_closing(self)
    @cython.locals(engine=TlsEngine)
    cdef object _send_close_notify(self)
    cdef object _finish(self)
    cdef object _fail(self, object exc, object message)
    cpdef object _force_close(self, object exc)
