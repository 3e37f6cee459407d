cimport cython

from loopcore.kernel.readiness cimport Readiness
from loopcore.transports.driver cimport Sink, StreamDriver


cdef class ReadinessDriver(StreamDriver):
    cdef Readiness _readiness
    cdef object _fileno
    cdef object _single
    cdef list _queue
    cdef Py_ssize_t _head
    cdef bint _turn_asked
    cdef bint _blocked

    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    cpdef object _run(self)
    @cython.locals(sink=Sink, received=bytes)
    cdef object _receive(self)
    @cython.locals(sink=Sink, nbytes=Py_ssize_t)
    cdef object _receive_into_buffer(self)
    cpdef object write(self, object item, Py_ssize_t size)
    @cython.locals(sent=Py_ssize_t)
    cpdef Py_ssize_t write_some(self, object item) except -1
    cpdef object flush(self)
    cpdef object take_turn(self)
    @cython.locals(sent=Py_ssize_t)
    cdef object _send(self)
    @cython.locals(queue=list, sent=Py_ssize_t, count=Py_ssize_t)
    cdef object _send_queue(self)
    @cython.locals(queue=list, gone=Py_ssize_t, size=Py_ssize_t)
    cdef object _drop(self, Py_ssize_t sent)
    cdef object _unblock(self)
    cpdef object discard(self)
    cdef object _drop_all(self)
    cpdef object shut_down_writing(self)
    cpdef object release(self)
    cpdef object describe(self)
