cimport cython


@cython.final
cdef class AcceptedSocket:
    cdef int _fd
    cdef tuple _kind
    cdef object _made
    cdef bint _is_open

    cpdef object fileno(self)
    cpdef object close(self)
    cpdef object made(self)


cpdef object real_socket(object sock)
