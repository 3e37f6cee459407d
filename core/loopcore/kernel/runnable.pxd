cdef class Runnable:
    cdef object _run(self)
    cdef Runnable _shown(self)
    cdef bint _takes_note(self, object result) except -1


cpdef object run(Runnable runnable)
