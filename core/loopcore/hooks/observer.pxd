cdef class Observer:
    cdef public int wants

    cpdef object note(self, int event, object what, long long number)
