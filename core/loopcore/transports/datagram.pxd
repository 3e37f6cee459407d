cimport cython

from loopcore.transports.driver cimport DatagramDriver
from loopcore.transports.lifecycle cimport Connection, initial_extra_info

cdef bint _SENDS_EMPTY
cdef int _LOST


cdef class DatagramTransport(Connection):
    cdef public object _address
    cdef public object _peer
    cdef public bint _connected
    cdef public int _lost_writes

    cdef object _on_datagram(self, bytes data, object address)
    cpdef object _refused(self, object exc)
    cdef object _report_failed_call(self, object name, object exc)
    @cython.locals(driver=DatagramDriver, connected=bint, item=bytes)
    cpdef object sendto(self, object data, object addr=*)
