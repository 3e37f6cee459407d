from loopcore.hooks.observer cimport Entry

cdef int _IO


cdef class Runnable(Entry):
    cdef object _run(self)
    cpdef object _as_public(self)
    cdef int _source(self) except -1
    cdef int _discard(self) except -1
    cdef bint _needs_turn_after(self, object result) except -1


cpdef object run(Runnable runnable)
