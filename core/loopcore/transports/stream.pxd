cimport cython

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.buffers cimport immutable
from loopcore.transports.clients cimport attach, needs_no_delay
from loopcore.transports.driver cimport StreamDriver
from loopcore.transports.lifecycle cimport Connection, initial_extra_info
from loopcore.transports.reader_feed cimport ReaderFeed, feed_of


cdef int OPEN
cdef int LOST


cdef class StreamTransport(Connection):
    cdef public object _on_data
    cdef ReaderFeed _feed
    cdef public object _on_get_buffer
    cdef public object _on_buffer_updated
    cdef public int _lost_writes
    cdef public bint _eof_written
    cdef public bint _eof_received

    cdef object _open(
        self, Scheduler scheduler, object sock, object protocol, object waiter, dict extra, object server
    )
    @cython.locals(driver=StreamDriver)
    cpdef object set_protocol(self, object protocol)
    cdef object _start_receiving(self)
    cdef object _on_received(self, bytes data)
    cpdef object _protocol_failed(self, object exc, object method)
    cdef object _get_buffer(self)
    @cython.locals(feed=ReaderFeed, unread=bytearray)
    cdef bytearray _get_unread(self)
    @cython.locals(feed=ReaderFeed)
    cdef object _unread_grown(self)
    cdef object _buffer_updated(self, Py_ssize_t nbytes)
    cpdef object _end_of_file(self)
    @cython.locals(driver=StreamDriver, size=Py_ssize_t)
    cpdef object write(self, object data)
    @cython.locals(driver=StreamDriver, size=Py_ssize_t)
    cdef object _write_other(self, object data)
    cdef bint _refuse(self, object name, object verb, Py_ssize_t size) except -1
    cdef object _drained(self)
    cpdef object _drop_references(self)
