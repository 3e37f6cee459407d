cimport cython

cdef int _FLOOR_BITS
cdef int _STEP_BITS
cdef int _WHOLE
cdef int _BUCKETS
cdef int _LAST


@cython.final
cdef class Histogram:
    cdef long long _sum
    cdef long long _min
    cdef long long _max
    cdef long long[256] _buckets

    @cython.locals(bucket=cython.longlong, shift=int)
    cpdef object record(self, long long duration_ns)
