from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.driver cimport Sink
from loopcore.transports.driver_datagram cimport ReadinessDatagramDriver
from loopcore.transports.multishot_receiver cimport MultishotReceiver


cdef class CompletionDatagramDriver(ReadinessDatagramDriver):
    cdef MultishotReceiver _receiver

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    cpdef object _arrived(self, object result)
    cpdef object release(self)
