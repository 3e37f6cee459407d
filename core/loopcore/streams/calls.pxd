cdef int _NEW
cdef int _WAITING
cdef int _ENDED


cdef class StreamCall:
    cdef int _state
    cdef object _future

    cdef object _describe(self)
    cdef object _advance(self, bint first)
    cdef object _abandon(self)
    cdef object _wait_for(self, object future)
