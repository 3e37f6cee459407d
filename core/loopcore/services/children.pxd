cimport cython

from loopcore.kernel.runnable cimport Runnable


cdef class Child(Runnable):
    cdef readonly object process
    cdef object _exited
    cdef object _watched
    cdef object _readiness
    cdef int _pidfd
    cdef object _completions
    cdef object _waiting
    cdef object _watch_otherwise

    cdef object _run(self)
    cpdef object stop(self)
    cpdef bint watch_descriptor(self) except -1
    cdef object _reap(self)
    cdef object _code(self)
    cdef object _wait(self)
    cdef tuple _identity(self)


cdef class Children:
    cdef object _host
    cdef object _ways
    cdef object _watched
    cdef readonly object survivors
