cdef class Runnable:
    cpdef object _run(self)
