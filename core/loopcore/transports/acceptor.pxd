cimport cython

from loopcore.kernel.runnable cimport Runnable
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.ports.operations cimport Accept
from loopcore.transports.accepted cimport AcceptedSocket
from loopcore.transports.clients cimport note_no_delay


cdef class Acceptor(Runnable):
    cdef public object server
    cdef public object sock
    cdef public int fd
    cdef public int backlog
    cdef public tuple kind
    cdef public object context
    cdef public object retry
    cdef public object name
    cdef bint _is_internet
    cdef bint _inherits

    cpdef object start(self)
    cpdef object _start_again(self)
    cpdef object stop(self)
    cpdef object _listen(self)
    cpdef object _pause_accepting(self)
    cpdef object _forget(self)
    cdef object _run(self)
    cdef object _socket_of(self, object fd)
    cdef object _take(self, object connection, object address)
    cdef object _make_socket(self, int fd)
    @cython.locals(loop=Scheduler)
    cdef bint _admit(self, object connection) except -1
    @cython.locals(loop=Scheduler)
    cpdef object _open(self, object connection, dict extra)
    cpdef object _pause_after_error(self, object exc)


cdef class CompletionAcceptor(Acceptor):
    cdef public Accept operation

    cpdef object _listen(self)
    cpdef object _pause_accepting(self)
    cpdef object _forget(self)
    cdef object _run(self)
    cdef object _take_or_close(self, object fd)
