cimport cython
from cpython.object cimport PyObject

from loopcore._native.attributes cimport open_dict
from loopcore.streams.calls cimport StreamCall
from loopcore.streams.control cimport WriteControl
from loopcore.streams.intake cimport Intake
from loopcore.transports.lifecycle cimport Connection

cdef int _OPEN
cdef int _BEGIN
cdef int _TICK_PASSED
cdef int _RESUMED


cdef class StreamWriter:
    cdef public object _transport
    cdef public object _protocol
    cdef public object _reader
    cdef public object _loop
    cdef object __weakref__
    cdef PyObject *_instance_dict

    @cython.locals(intake=Intake)
    cdef object _failure(self)
    @cython.locals(connection=Connection)
    cdef bint _closing(self) except -1


cdef class Drain(StreamCall):
    cdef int _step
    cdef StreamWriter _writer
    cdef WriteControl _control

    cdef object _describe(self)
    cdef object _advance(self, bint first)
    cdef object _abandon(self)
    cdef object _retire(self)


cdef inline object give_instance_dicts():
    cdef StreamWriter sample = StreamWriter.__new__(StreamWriter)
    open_dict(StreamWriter, <char *>&sample._instance_dict - <char *><PyObject *>sample)
