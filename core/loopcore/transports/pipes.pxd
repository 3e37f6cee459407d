cimport cython

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.buffers cimport immutable
from loopcore.transports.driver cimport StreamDriver
from loopcore.transports.lifecycle cimport Connection

cdef int OPEN


cdef class PipeTransport(Connection):
    cdef object _connect(self, Scheduler scheduler, object pipe, object protocol, object waiter, bint writes)
    cdef object _own_descriptor(self)
    cpdef object _failed(self, object exc, object message)
    cpdef object _finish_closing(self)
    cpdef object _lose(self, object exc)


cdef class ReadPipeTransport(PipeTransport):
    cdef object _on_received(self, bytes data)
    cpdef object _end_of_file(self)
    cpdef object _failed(self, object exc, object message)


cdef class WritePipeTransport(PipeTransport):
    cdef public int _lost_writes

    @cython.locals(driver=StreamDriver, size=Py_ssize_t, sent=Py_ssize_t)
    cpdef object write(self, object data)
    cpdef object _end_of_file(self)
