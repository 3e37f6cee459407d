cdef class Entry:
    cdef object _work(self)
    cdef unsigned int _get_label(self) noexcept
    cdef void _set_label(self, unsigned int label) noexcept
    cdef int _ending(self) noexcept
    cdef bint _is_new(self) noexcept
    cdef object _given_name(self)


# Compiled plugins contain the layout of this class and of its table of methods: a change is a breaking one.
cdef class Observer:
    cdef public int wants
    cdef public object failure

    cdef void tell(self, int event, object what, long long number) noexcept
