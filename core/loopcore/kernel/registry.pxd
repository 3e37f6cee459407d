cimport cython

cdef bint _DIRECT
cdef dict _running

@cython.locals(known=Py_ssize_t)
cpdef object enter_task(object loop, object task)
cpdef object leave_task(object loop, object previous)
cpdef object enlist_elsewhere(object task)
cpdef object delist_elsewhere(object task)
