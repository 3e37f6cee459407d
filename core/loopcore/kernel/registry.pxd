cdef bint _DIRECT
cdef dict _running

cpdef object enter_task(object loop, object task)
cpdef object leave_task(object loop, object previous)
cpdef object enlist(object task)
cpdef object delist(object entry)
