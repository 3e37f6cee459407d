cimport cython


@cython.final
cdef class Overlapped:
    cdef public object operation
    cdef public Association association
    cdef public list queue
    cdef public Py_ssize_t taken
    cdef public list rest
    cdef public bint begun
    cdef public bint is_cancelled

    cpdef object release(self)


@cython.final
cdef class Association:
    cdef public long long fd
    cdef public list readers
    cdef public list writers
    cdef public list polls
    cdef public int registered
    cdef public bint suspect
    cdef public bint dirty
    cdef public bint unwatchable
    cdef public long long rested
    cdef object _socket
    cdef object _identity

    cpdef list queue_for(self, int code)
    @cython.locals(wanted=cython.int, overlapped=Overlapped)
    cpdef int wanted(self) except -1
    cpdef bint is_idle(self) except -1
    cpdef bint is_same_file(self) except -1
    cpdef object forget_socket(self)
    cpdef list in_flight(self)
    cdef object _look(self)
