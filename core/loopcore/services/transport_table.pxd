cdef class TransportTable:
    cdef dict _references

    cpdef object get(self, object fd, object default=*)
    cpdef object discard(self, object fd, object transport)
