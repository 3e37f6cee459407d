from cpython.object cimport PyObject

from loopcore._native.attributes cimport open_dict
from loopcore.streams.intake cimport Intake
from loopcore.streams.reading cimport NextLine, ReadLine, ReadUntil


cdef class StreamReader(Intake):
    cdef object __weakref__
    cdef PyObject *_instance_dict


cdef inline object give_instance_dicts():
    cdef StreamReader sample = StreamReader.__new__(StreamReader)
    open_dict(StreamReader, <char *>&sample._instance_dict - <char *><PyObject *>sample)
