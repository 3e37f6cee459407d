cpdef object immutable(object data)
