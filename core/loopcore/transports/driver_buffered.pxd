cimport cython

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.driver cimport Sink, StreamDriver

cdef Py_ssize_t _VECTOR_LIMIT
cdef Py_ssize_t _SMALL, _MEDIUM, _LARGE


cdef class BufferedStreamDriver(StreamDriver):
    cdef object _single
    cdef list _queue
    cdef Py_ssize_t _head
    cdef bint _in_send
    cdef bint _flush_scheduled
    cdef Py_ssize_t _peak
    cdef bint _is_pipe

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    @cython.locals(queue=list)
    cdef object _append(self, object item)
    cdef int _schedule_flush(self) except -1
    @cython.locals(sent=Py_ssize_t)
    cdef Py_ssize_t _send_some(self, object item) except -1
    cpdef object shut_down_writing(self)
    @cython.locals(unread=bytearray)
    cdef Py_ssize_t _receive(self) except -1
    @cython.locals(data=bytes, nbytes=Py_ssize_t)
    cdef Py_ssize_t _receive_bytes(self) except -1
    @cython.locals(nbytes=Py_ssize_t)
    cdef Py_ssize_t _receive_behind(self, bytearray unread) except -1
    @cython.locals(sink=Sink, nbytes=Py_ssize_t)
    cdef Py_ssize_t _receive_into_buffer(self) except -1
    @cython.locals(size=Py_ssize_t, limit=Py_ssize_t)
    cdef Py_ssize_t _receive_size(self) except -1
    @cython.locals(peak=Py_ssize_t)
    cdef int _record(self, Py_ssize_t nbytes) except -1
    cdef int _send_queued(self) except -1
    @cython.locals(sent=Py_ssize_t)
    cdef object _send_single(self)
    @cython.locals(queue=list, sent=Py_ssize_t, count=Py_ssize_t)
    cdef object _send_many(self)
    @cython.locals(queue=list, first=list, left=Py_ssize_t, size=Py_ssize_t)
    cdef list _take_first(self, Py_ssize_t limit)
    @cython.locals(queue=list, gone=Py_ssize_t, size=Py_ssize_t)
    cdef object _drop(self, Py_ssize_t sent)
    cdef object _drop_all(self)
