cimport cython

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.stream cimport StreamTransport


@cython.locals(transport=StreamTransport)
cpdef StreamTransport open_stream(
    Scheduler scheduler, object sock, object protocol, object waiter=*, dict extra=*, object server=*
)
