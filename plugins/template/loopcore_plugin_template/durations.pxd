cimport cython

from loopcore.hooks.observer cimport Observer

cdef int _BEGINS


cdef class Figures:
    cdef readonly long long count
    cdef readonly long long longest_ns
    cdef readonly str longest


cdef class Durations(Observer):
    cdef readonly list figures
    cdef long long _began_ns

    @cython.locals(now=cython.longlong)
    cdef void tell(self, int event, object what, long long number) noexcept
    @cython.locals(figures=Figures)
    cdef int _add(self, object what, Py_ssize_t source, long long now) except -1
