# Compiled plugins contain the layout of these classes and of their tables of methods: a change is a breaking one.
# A plugin imports both classes, also if it uses one.


cdef class Entry:
    cdef object _work(self)
    cdef unsigned int _get_label(self) noexcept
    cdef void _set_label(self, unsigned int label) noexcept
    cdef int _ending(self) noexcept
    cdef bint _is_new(self) noexcept
    cdef object _given_name(self)


cdef class Observer:
    cdef public int wants
    cdef public object failure

    cdef void tell(self, int event, object what, long long number) noexcept
