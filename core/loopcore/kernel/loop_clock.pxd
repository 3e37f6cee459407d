cimport cython

from loopcore._native.threads cimport shared_double


@cython.final
cdef class LoopClock:
    cdef readonly object source
    cdef readonly double resolution
    cdef shared_double last
    cdef bint _is_monotonic

    @cython.locals(now=cython.double)
    cpdef double now(self) except? -1
