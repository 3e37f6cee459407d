cimport cython


cdef class DirectPort:
    cdef public bint times_gil
    cdef public unsigned long long gil_steps

    cpdef object wait(self, object timeout)


@cython.locals(direct=DirectPort)
cdef object wait_in(object port, object timeout)
