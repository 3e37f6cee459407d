cimport cython
from cpython.object cimport PyObject

from loopcore.kernel.readiness cimport Readiness
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.native.flushes cimport add_borrowed, take_only_borrowed
from loopcore.transports.accepted cimport close_socket, number_of
from loopcore.transports.driver cimport Sink
from loopcore.transports.driver_buffered cimport BufferedStreamDriver

cdef int _FAILED
cdef int _UNTRIED


cdef class ReadinessDriver(BufferedStreamDriver):
    cdef Readiness _readiness
    cdef object _fileno
    cdef bint _blocked

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    cdef object _run(self)
    cpdef object write(self, object item, Py_ssize_t size)
    cdef int _schedule_flush(self) except -1
    @cython.locals(goal=cython.longlong)
    cpdef Py_ssize_t write_some(self, object item) except -1
    cpdef object flush(self)
    cpdef object run_flush(self)
    @cython.locals(sent=Py_ssize_t)
    cdef object _send(self)
    cdef object _send_rest(self, Py_ssize_t sent)
    cdef object _answer(self)
    cdef object _unblock(self)
    cpdef object discard(self)
    cpdef object release(self)
    cpdef object describe(self)


cdef inline bint unschedule_sole_flush(ReadinessDriver driver) noexcept:
    return take_only_borrowed(<PyObject *>driver.scheduler._flushes, <PyObject *>driver.sink)


# Equivalent to the scheduler's `_flush_soon` with the sink.
cdef inline int schedule_flush(ReadinessDriver driver) except -1:
    return add_borrowed(<PyObject *>driver.scheduler._flushes, <PyObject *>driver.sink)
