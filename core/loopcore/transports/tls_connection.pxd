cimport cython

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.stream cimport StreamTransport
from loopcore.transports.tls_engine cimport TlsEngine
from loopcore.transports.tls_sending cimport TlsSending

cdef int HANDSHAKE
cdef int OPEN
cdef int SHUTDOWN
cdef int DONE


cdef class TlsConnection(TlsSending):
    cdef object _shake_hands(self)
    cdef object _agreed(self)
    @cython.locals(engine=TlsEngine, data=bytes)
    cdef object _deliver(self)
    @cython.locals(loop=Scheduler)
    cdef object _answer(self)
    @cython.locals(engine=TlsEngine, count=Py_ssize_t)
    cdef bint _fill_buffer(self) except -1
    cdef object _limit_received(self)
    cdef object _end_of_stream(self)
    cdef object _call_eof_received(self)
    @cython.locals(engine=TlsEngine, dropped=Py_ssize_t)
    cdef object _await_close_notify(self)
