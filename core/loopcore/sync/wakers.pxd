from loopcore.sync.waiting cimport Crowd, Subject, Waiter

cdef object _PENDING


cdef class _Token(Subject):
    cdef readonly Crowd crowd
    cdef public bint is_there

    cpdef object put(self)
