cimport cython

from loopcore.kernel.handle cimport Handle


@cython.final
cdef class Inbox:
    cdef object _handles
    cdef object _wake
    cdef bint _woken
    cdef public long long wakes

    cpdef object post(self, Handle handle)
    cpdef object interrupt(self)
    @cython.locals(batch=list)
    cpdef list take(self)
    @cython.locals(handle=Handle)
    cpdef object discard(self)
