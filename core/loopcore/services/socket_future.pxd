cimport cython

from loopcore.kernel.future cimport Future
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.kernel.readiness cimport Registration
from loopcore.kernel.runnable cimport Runnable

cdef int _PENDING
cdef int _CALL, _RECV, _RECV_INTO, _ACCEPT
cdef int _READING, _WRITING


cdef class Sweeper(Runnable):
    cdef Scheduler _scheduler

    cdef object _run(self)


cdef class SocketFuture(Future):
    cdef int _kind
    cdef object _sock
    cdef object _argument
    cdef object _fd
    cdef int _direction
    cdef bint _watching
    cdef bint _asked
    cdef Sweeper _sweeper

    cdef object _prepare(self, Sweeper sweeper, object fd, int direction, int kind, object sock, object argument)
    cdef object _run(self)
    @cython.locals(drained=bint)
    cdef object _leave_with(self, object result)
    cpdef object displaced(self)
    @cython.locals(entry=Registration)
    cdef object _leave(self)
    cdef bint _cancel(self, object msg) except -1


@cython.locals(future=SocketFuture, scheduler=Scheduler)
cpdef SocketFuture begin(Sweeper sweeper, object fd, int direction, int kind, object sock, object argument)

cpdef tuple accept_from(object sock)
