from cpython.object cimport PyObject

from loopcore._native.attributes cimport open_dict
from loopcore.streams.control cimport WriteControl
from loopcore.streams.intake cimport Intake
from loopcore.streams.reader cimport StreamReader


cdef class StreamReaderProtocol(WriteControl):
    cdef object _reader
    cdef Intake _intake
    cdef public object _transport
    cdef public object _task
    cdef public object _client_connected_cb
    cdef public bint _over_ssl
    cdef object _lost_by
    cdef object _close_waiter
    cdef object __weakref__
    cdef PyObject *_instance_dict

    cdef object _settle_close_waiter(self)


cdef inline object give_instance_dicts():
    cdef StreamReaderProtocol sample = StreamReaderProtocol.__new__(StreamReaderProtocol)
    open_dict(StreamReaderProtocol, <char *>&sample._instance_dict - <char *><PyObject *>sample)
