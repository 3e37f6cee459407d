cpdef object immutable(object data)
cpdef object join_last(list queue)
cpdef list join_small(list items)
