cimport cython


@cython.final
cdef class EventfdWaker:
    cdef readonly int fd

    cpdef object wake(self)
    cpdef object drain(self)
