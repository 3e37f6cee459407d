cimport cython

from loopcore.kernel.readiness cimport Readiness
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.accepted cimport close_socket, number_of
from loopcore.transports.driver cimport Sink
from loopcore.transports.driver_buffered cimport BufferedStreamDriver


cdef class ReadinessDriver(BufferedStreamDriver):
    cdef Readiness _readiness
    cdef object _fileno
    cdef bint _blocked
    cdef object _readable

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    cdef bint _is_listed(self) except -1
    cdef object _run(self)
    cpdef object _on_readable(self)
    cpdef object write(self, object item, Py_ssize_t size)
    @cython.locals(goal=cython.longlong)
    cpdef Py_ssize_t write_some(self, object item) except -1
    cpdef object flush(self)
    cpdef object run_flush(self)
    cdef object _send(self)
    cdef object _answer(self)
    cdef object _unblock(self)
    cpdef object discard(self)
    cpdef object release(self)
    cpdef object describe(self)
