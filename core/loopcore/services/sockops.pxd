cimport cython

from loopcore.kernel.handle cimport Handle
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.kernel.readiness cimport Readiness
from loopcore.kernel.runnable cimport Runnable
from loopcore.services.socket_future cimport SocketFuture, Sweeper, accept_from, begin
from loopcore.services.transport_table cimport TransportTable

cdef int _READING, _WRITING, _RECV, _RECV_INTO
cdef object _Socket
cdef int _DEBUG


cdef class SockOps:
    cdef object _host
    cdef Scheduler _loop
    cdef Readiness _readiness
    cdef Sweeper _sweeper
    cdef TransportTable _transports

    cdef SocketFuture _read_later(self, int kind, object sock, object argument)
    cpdef object add(self, object fd, int direction, object callback, object args)
    cpdef object remove(self, object fd, int direction)
    cdef object _watch(self, object fd, int direction, Runnable runnable)
    cpdef object check_socket(self, object sock)


@cython.final
cdef class Remainder:
    cdef object _sock
    cdef object _view

    cpdef bint passes(self, Py_ssize_t sent) except -1
    cpdef object send(self)
