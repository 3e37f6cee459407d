from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.accepted cimport number_of
from loopcore.transports.driver cimport Sink, StreamDriver
from loopcore.transports.driver_completion cimport CompletionDriver
from loopcore.transports.driver_readiness cimport ReadinessDriver


cdef class PipeDriver(ReadinessDriver):
    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cdef bint _is_listed(self) except -1


cdef class PipeReader(PipeDriver):
    cdef bint _always_ready
    cdef bint _queued

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    cdef object _run(self)
    cdef object _queue_turn(self)


cdef class PipeWriter(PipeDriver):
    cpdef object start_reading(self)
    cpdef object _on_readable(self)


cdef class CompletionPipeReader(CompletionDriver):
    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)


cdef class CompletionPipeWriter(CompletionPipeReader):
    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object _arrived(self, object result)
    cdef Py_ssize_t _send_some(self, object item) except -1
    cdef int _send_queued(self) except -1


cpdef object look_for_reader(StreamDriver driver)
cpdef object state_of_reader(int fd)
