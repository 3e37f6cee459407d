from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.driver cimport Sink, StreamDriver


cpdef StreamDriver make_stream_driver(Scheduler scheduler, Sink sink, object sock, object context)
