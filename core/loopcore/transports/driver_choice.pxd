cimport cython

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.driver cimport Sink, StreamDriver
from loopcore.transports.driver_completion cimport CompletionDriver
from loopcore.transports.driver_readiness cimport ReadinessDriver


@cython.locals(driver=StreamDriver)
cpdef StreamDriver make_stream_driver(Scheduler scheduler, Sink sink, object sock, object context)
