cimport cython

from loopcore.kernel.handle cimport Handle


@cython.final
cdef class MicrotaskQueues:
    cdef public Py_ssize_t budget
    cdef readonly bint pending
    cdef readonly bint at_microtasks
    cdef object _next_ticks
    cdef object _microtasks

    cpdef object push_next_tick(self, Handle handle)
    cpdef object push_microtask(self, Handle handle)
    cpdef Handle pop(self)
    cpdef object clear(self)
