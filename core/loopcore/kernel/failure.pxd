cimport cython

from loopcore.kernel.future cimport Future

cdef int _FINISHED

cdef extern from *:
    """
    #define loopcore_is_of_a_program(object) PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE)
    """
    bint is_of_a_program "loopcore_is_of_a_program" (object what) noexcept


cpdef bint takes_waiters(object future) except -1
cpdef bint has_own_result(object future) except -1
@cython.locals(future=Future)
cpdef object failure_of(object waiter)
