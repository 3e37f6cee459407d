cdef class Runnable:
    cdef object _run(self)


cpdef object run(Runnable runnable)
