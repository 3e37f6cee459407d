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


@cython.locals(accepted=AcceptedSocket)
cpdef int number_of(object sock) except? -1

@cython.locals(accepted=AcceptedSocket)
cpdef object close_socket(object sock)

cpdef object real_socket(object sock)
