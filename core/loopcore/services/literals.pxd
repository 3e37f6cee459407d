cdef dict _KINDS

cpdef object numeric_host(object host, object family)
cpdef object numeric_info(object address, object family, object kind, object proto)
