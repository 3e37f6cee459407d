cimport cython

from loopcore.hooks.observer cimport Observer


@cython.final
cdef class Observers:
    cdef readonly int wants
    cdef list _made
    cdef tuple _present
    cdef object _probes

    @cython.locals(observer=Observer)
    cpdef object choose(self, Observer meter)
    @cython.locals(observer=Observer)
    cdef int note(self, int event, object what, long long number) except -1
