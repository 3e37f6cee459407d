cimport cython


cdef class DirectPort:
    cpdef object wait(self, object timeout)


@cython.locals(direct=DirectPort)
cdef object wait_in(object port, object timeout)
