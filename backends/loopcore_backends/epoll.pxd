cimport cython

from loopcore._native.threads cimport shared
from loopcore.ports.direct cimport DirectPort
from loopcore_backends._native.epoll cimport wait_timed


cdef class EpollBackend(DirectPort):
    cdef public object _waker
    cdef public int _wake_fd
    cdef public set _registered
    cdef public dict _interests
    cdef shared _sift
    cdef public set _ghosts
    cdef public dict _doubts
    cdef public object _epoll
    cdef shared _fd
    cdef public int _batch
    cdef shared _waiting
    cdef int _owner
    cdef shared _is_closed

    @cython.locals(number=cython.int)
    cdef object _use(self, object instance)
    cpdef object wait(self, object timeout)
    cdef object _take_row(self, object fd)
    cdef object _change_row(self, object fd, object interest)


cdef inline list wait(EpollBackend backend, double timeout):
    return wait_timed(
        backend._epoll, backend._fd, timeout, backend._batch, &backend.gil_steps if backend.times_gil else NULL
    )
