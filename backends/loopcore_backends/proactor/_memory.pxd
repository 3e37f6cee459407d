cdef class LentPiece:
    cdef public object view
    cdef Memory _memory
    cdef bytearray _piece

    cpdef object give_back(self)


cdef class Memory:
    cdef public object whole
    cdef public list vector
    cdef public list pieces

    cpdef list up_to(self, Py_ssize_t limit)
    cpdef bytearray piece(self, Py_ssize_t limit)
    cpdef object take_back(self, bytearray piece)
