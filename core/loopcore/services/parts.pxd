cdef class Part:
    cdef object _make
    cdef str _name
