cimport cython


cdef dict _KINDS
cdef object _NUMERIC_ONLY
cdef object _RELEVANT_FLAGS
cdef object _ANY
cdef object _IPV4
cdef object _IPV6
cdef object _FOUR
cdef object _inet_pton

cpdef object numeric_host(object host, object family)
cpdef object numeric_info(object address, object family, object kind, object proto)
@cython.locals(numbers=bint)
cpdef list resolve_literal(object host, object port, object family, object kind, object proto, object flags)
