# Compiled plugins contain the layout of this class and of its table of methods: a change is a breaking one.
cdef class Observer:
    cdef public int wants
    cdef public object failure

    cdef void tell(self, int event, object what, long long number) noexcept
