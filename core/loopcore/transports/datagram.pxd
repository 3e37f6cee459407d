cimport cython
from cpython.object cimport PyObject

from loopcore._native.attributes cimport open_dict
from loopcore.transports.driver cimport DatagramDriver
from loopcore.transports.lifecycle cimport Connection

cdef bint _SENDS_EMPTY
cdef int _LOST


cdef class DatagramTransport(Connection):
    cdef public object _address
    cdef public object _peer
    cdef public bint _connected
    cdef public int _lost_writes
    cdef object __weakref__
    cdef PyObject *_instance_dict

    cdef object _on_datagram(self, bytes data, object address)
    cpdef object _datagram(self, bytes data, object address)
    cpdef object _refused(self, object exc)
    cdef object _blame(self, object name, object exc)
    @cython.locals(driver=DatagramDriver, connected=bint, item=bytes)
    cpdef object sendto(self, object data, object addr=*)


cdef inline object give_instance_dicts():
    cdef DatagramTransport sample = DatagramTransport.__new__(DatagramTransport)
    open_dict(DatagramTransport, <char *>&sample._instance_dict - <char *><PyObject *>sample)
