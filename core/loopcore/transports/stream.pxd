cimport cython

from loopcore.transports.driver cimport Driver, StreamDriver
from loopcore.transports.lifecycle cimport Connection


cdef class StreamTransport(Connection):
    cdef public object _on_data
    cdef public object _on_get_buffer
    cdef public object _on_buffer_updated
    cdef public int _lost_writes
    cdef public bint _paused
    cdef public bint _eof_written
    cdef public bint _eof_received
    cdef object __weakref__

    @cython.locals(driver=StreamDriver)
    cpdef object set_protocol(self, object protocol)
    cpdef object _received(self, bytes data)
    cpdef object _get_buffer(self)
    cpdef object _buffer_updated(self, Py_ssize_t nbytes)
    cpdef object _end_of_file(self)
    @cython.locals(driver=StreamDriver, item=bytes, size=Py_ssize_t)
    cpdef object write(self, object data)
    @cython.locals(driver=StreamDriver, size=Py_ssize_t)
    cdef object _write_other(self, object data)
    cdef bint _refuse(self, object name, object verb, Py_ssize_t size) except -1
    cpdef object _run(self)
    @cython.locals(driver=Driver)
    cpdef object _written(self)
    cdef object _drained(self)
    cpdef object _let_go(self)
