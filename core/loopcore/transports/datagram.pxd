cimport cython

from loopcore.transports.driver cimport DatagramDriver
from loopcore.transports.lifecycle cimport Connection


cdef class DatagramTransport(Connection):
    cdef public object _address
    cdef public object _peer
    cdef public int _lost_writes
    cdef public bint _paused
    cdef object __weakref__

    cpdef object _datagram(self, bytes data, object address)
    cpdef object _refused(self, object exc)
    cdef object _blame(self, object name, object exc)
    @cython.locals(driver=DatagramDriver, connected=bint, item=bytes)
    cpdef object sendto(self, object data, object addr=*)
    cpdef object _run(self)
    @cython.locals(unsent=Py_ssize_t)
    cpdef object _written(self)
