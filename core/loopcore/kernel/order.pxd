cimport cython

from loopcore.kernel.runnable cimport Runnable

cdef int _CLOCK_STRIDE


@cython.final
cdef class OrderedQueue:
    cdef object _order
    cdef dict _lent

    cpdef bint holds(self, Runnable runnable) except -1
    cpdef bint lend(self, Runnable runnable) except -1
    cpdef Runnable pop(self)
    @cython.locals(back=list)
    cpdef list take_back(self)


@cython.final
cdef class Allowance:
    cdef object _budget
    cdef Py_ssize_t _callbacks
    cdef long long _limit_ns
    cdef long long _began_at
    cdef long long _looked_at
    cdef Py_ssize_t _next_look
    cdef int _stride

    cpdef object begin(self)
    @cython.locals(now=cython.longlong)
    cpdef bint is_spent(self, Py_ssize_t ran) except -1
