cimport cython


@cython.final
cdef class LoopClock:
    cdef readonly object source
    cdef readonly double resolution
    cdef readonly double last
    cdef bint _is_monotonic

    cpdef double now(self) except? -1
