cimport cython

from loopcore._native.threads cimport shared
from loopcore.kernel.handle cimport Handle
from loopcore.kernel.ready cimport ReadyQueue

cdef Py_ssize_t _POSTS_BEFORE_YIELD


@cython.final
cdef class Inbox:
    cdef object _handles
    cdef object _append
    cdef object _popleft
    cdef object _wake
    cdef shared _woken
    cdef shared _posts_since_wake
    cdef shared _wakes

    cpdef object post(self, Handle handle, bint running)
    cpdef object interrupt(self)
    @cython.locals(count=Py_ssize_t, _=Py_ssize_t, handle=Handle)
    cpdef Py_ssize_t drain_into(self, ReadyQueue ready) except -1
    @cython.locals(handle=Handle)
    cpdef object discard(self)
