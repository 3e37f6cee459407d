cimport cython


@cython.final
cdef class LoopBinding:
    cdef str _what
    cdef str _remedy
    cdef object _loop
    cdef str _place

    cpdef object check(self)
    cpdef object release(self, object function)
    cdef object _meet(self, object loop)
    cdef object _refuse(self, str where)
