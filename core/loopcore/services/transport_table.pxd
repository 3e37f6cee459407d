cdef class TransportTable:
    cdef dict _references

    cpdef object get(self, object fd, object default=*)
    cpdef object check_free(self, object number, object fd)
    cpdef object discard(self, object fd, object transport)
