cimport cython

cdef bint _DIRECT
cdef dict _running
cdef object _swap_current_task
cdef object _add_to_awaited_by
cdef object _discard_from_awaited_by

@cython.locals(known=Py_ssize_t)
cpdef object enter_task(object loop, object task)
cpdef object leave_task(object loop, object previous)
cpdef object link(object awaited, object task)
cpdef object unlink(object awaited, object task)
cpdef object enlist_elsewhere(object task)
cpdef object delist_elsewhere(object task)
