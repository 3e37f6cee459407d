cimport cython


@cython.final
cdef class Life:
    cdef readonly object page
    cdef unsigned long long *word

    cdef bint is_here(self) except -1
