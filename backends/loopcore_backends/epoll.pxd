cdef class EpollBackend:
    cdef public object _waker
    cdef public int _wake_fd
    cdef public dict _registered
    cdef public bint _sift
    cdef public set _ghosts
    cdef public dict _doubts
    cdef public object _epoll
    cdef public int _fd
    cdef public int _batch
