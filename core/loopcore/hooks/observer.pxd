cdef class Observer:
    cdef public int wants
    cdef public object failure

    cdef void tell(self, int event, object what, long long number) noexcept
