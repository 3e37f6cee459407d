cimport cython

from loopcore.kernel.future cimport Future

cdef int _FINISHED


@cython.locals(future=Future)
cpdef object failure_of(object waiter)
