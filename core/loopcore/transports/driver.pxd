from loopcore.kernel.runnable cimport Runnable
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.accepted cimport number_of


cdef class Sink(Runnable):
    cdef object _on_received(self, bytes data)
    cdef object _on_datagram(self, bytes data, object address)
    cdef object _on_written(self)
    cdef object _get_buffer(self)
    cdef bytearray _get_unread(self)
    cdef object _unread_grown(self)
    cdef object _buffer_updated(self, Py_ssize_t nbytes)
    cpdef object _end_of_file(self)
    cpdef object _refused(self, object exc)
    cpdef object _failed(self, object exc, object message)


cdef class Driver(Runnable):
    cdef public Scheduler scheduler
    cdef public Sink sink
    cdef public object sock
    cdef public int fd
    cdef public object context
    cdef public Py_ssize_t unsent
    cdef public bint reading
    cdef public long long received
    cdef public long long sent

    cdef object _work(self)
    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object count_received(self, Py_ssize_t size)
    cpdef object count_sent(self, Py_ssize_t size)

    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    cpdef object flush(self)
    cpdef object run_flush(self)
    cpdef object discard(self)
    cpdef object release(self)
    cpdef object _arrived(self, object result)
    cdef object _answer(self)
    cpdef object describe(self)


cdef class StreamDriver(Driver):
    cdef public bint buffered

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object write(self, object item, Py_ssize_t size)
    cpdef Py_ssize_t write_some(self, object item) except -1
    cpdef object shut_down_writing(self)


cdef class DatagramDriver(Driver):
    cpdef bint send(self, object item, object address, bint connected) except -1
    cpdef object queue(self, object item, object address, bint connected, Py_ssize_t size)
