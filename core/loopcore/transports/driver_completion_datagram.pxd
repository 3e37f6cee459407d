from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.driver cimport Sink
from loopcore.transports.driver_datagram cimport ReadinessDatagramDriver
from loopcore.transports.inflow cimport Inflow


cdef class CompletionDatagramDriver(ReadinessDatagramDriver):
    cdef Inflow _inflow

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    cpdef object _arrived(self, object result)
    cpdef object release(self)
