cimport cython
from cpython.object cimport PyObject

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.native.sockets cimport keep_spare, receive, receive_behind, try_receive_into, try_send_one
from loopcore.transports.driver cimport Sink, StreamDriver

cdef Py_ssize_t _VECTOR_LIMIT
cdef Py_ssize_t _EXPECT_FROM
cdef int _RECEIVE_FAILED
cdef int _CANNOT_GROW


cdef class BufferedStreamDriver(StreamDriver):
    cdef object _single
    cdef list _queue
    cdef Py_ssize_t _head
    cdef bint _flush_scheduled
    cdef Py_ssize_t _expected
    cdef bint _steady
    cdef Py_ssize_t _peak
    cdef int _cut

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    @cython.locals(queue=list)
    cdef object _append(self, object item)
    @cython.locals(sent=Py_ssize_t)
    cdef Py_ssize_t _send_some(self, object item) except -1
    cpdef object shut_down_writing(self)
    @cython.locals(received=object, unread=bytearray, nbytes=Py_ssize_t)
    cdef Py_ssize_t _receive(self) except -1
    cdef Py_ssize_t _take_unread(self, Py_ssize_t nbytes) except -1
    @cython.locals(sink=Sink, nbytes=Py_ssize_t)
    cdef Py_ssize_t _receive_into_buffer(self) except -1
    cdef Py_ssize_t _receive_into(self, object buffer) except? -1
    cdef object _send_queued(self)
    @cython.locals(sent=Py_ssize_t)
    cdef Py_ssize_t _send_single(self) noexcept
    cdef object _note_single(self, Py_ssize_t sent)
    @cython.locals(queue=list, sent=Py_ssize_t, count=Py_ssize_t)
    cdef object _send_many(self)
    @cython.locals(queue=list, first=list, left=Py_ssize_t, size=Py_ssize_t)
    cdef list _take_first(self, Py_ssize_t limit)
    @cython.locals(queue=list, gone=Py_ssize_t, size=Py_ssize_t)
    cdef object _drop(self, Py_ssize_t sent)
    cdef object _drop_all(self)


# Attributes are passed without temporary references: nothing in these functions releases them.
cdef inline object receive_next(BufferedStreamDriver driver):
    return receive(
        driver.fd, driver.scheduler.receive_limit, driver._expected, driver._steady, driver._peak, &driver._cut
    )


cdef inline Py_ssize_t try_receive_into_buffer(BufferedStreamDriver driver, object buffer) noexcept:
    return try_receive_into(<PyObject *>driver.sock, driver.fd, <PyObject *>buffer)


cdef inline Py_ssize_t try_receive_behind(BufferedStreamDriver driver, bytearray unread) noexcept:
    return receive_behind(driver.fd, driver.scheduler.receive_limit, <PyObject *>unread, &driver._cut)


cdef inline Py_ssize_t try_send_single(BufferedStreamDriver driver) noexcept:
    return try_send_one(<PyObject *>driver.sock, driver.fd, <PyObject *>driver._single, driver._head)


cdef inline void keep_received(object received) noexcept:
    keep_spare(<PyObject *>received)


cdef inline void let_go_of_single(BufferedStreamDriver driver) noexcept:
    keep_spare(<PyObject *>driver._single)
    driver._single = None
