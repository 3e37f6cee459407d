from loopcore.transports.driver_datagram cimport ReadinessDatagramDriver
from loopcore.transports.inflow cimport Inflow


cdef class CompletionDatagramDriver(ReadinessDatagramDriver):
    cdef Inflow _inflow

    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    cpdef object _arrived(self, object result)
    cpdef object release(self)
