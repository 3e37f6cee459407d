cimport cython

from loopcore.transports.tls_connection cimport TlsConnection
from loopcore.transports.tls_engine cimport TlsEngine

cdef int OPEN


cdef class SSLTransport(TlsConnection):
    cdef public object _sslcontext
    cdef object _read_limits

    cpdef object set_protocol(self, object protocol)
    @cython.locals(engine=TlsEngine, size=Py_ssize_t)
    cpdef object write(self, object data)
    cdef object _count_lost_write(self)
