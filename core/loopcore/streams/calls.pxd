cimport cython

from loopcore.kernel.future cimport Future

cdef int _PENDING
cdef int _NEW
cdef int _WAITING
cdef int _ENDED


cdef class StreamCall:
    cdef int _state
    cdef object _future

    cdef object _describe(self)
    cdef object _advance(self, bint first)
    cdef object _abandon(self)
    cdef object _retire(self)
    cdef object _wait_for(self, object future)
    @cython.locals(own=Future, done=bint)
    cdef object _collect(self)
    @cython.locals(own=Future)
    cdef object _suspension(self)
