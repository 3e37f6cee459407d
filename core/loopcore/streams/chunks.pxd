cimport cython

cdef class Chunks:
    cdef public Py_ssize_t size
    cdef object _head
    cdef Py_ssize_t _start
    cdef object _rest

    cpdef object append(self, bytes data)
    cdef object _append_behind(self, bytes data)
    cdef object _add_chunk(self, object chunk)
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t, taken=bytes)
    cpdef bytes take(self, Py_ssize_t count)
    @cython.locals(wanted=Py_ssize_t, available=Py_ssize_t)
    cdef bytes _take_several(self, Py_ssize_t count)
    cdef object _next_head(self)
    cpdef bytes take_all(self)
    @cython.locals(found=Py_ssize_t)
    cpdef Py_ssize_t find(self, object wanted, Py_ssize_t offset) except -2
    cdef object _gather(self)
    cpdef bytes peek(self)


cdef bytes cut(object chunk, Py_ssize_t start, Py_ssize_t end)
