cimport cython

from loopcore.kernel.future cimport Future

cdef int _FINISHED

cdef set _OWN_CLASSES


cpdef bint takes_waiters(object future) except -1
cpdef bint has_default_result(object future) except -1
@cython.locals(future=Future)
cpdef object failure_of(object waiter)
