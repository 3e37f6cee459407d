cimport cython

from loopcore_backends.proactor._associations cimport Association


@cython.final
cdef class Registrations:
    cdef public dict table
    cdef public list refused
    cdef object _multiplexer
    cdef list _dirty
    cdef object _idle
    cdef long long _waits

    cpdef Association associate(self, object fd)
    cpdef object note(self, Association association)
    @cython.locals(association=Association, oldest=Association, place=Py_ssize_t)
    cpdef object update(self)
    cpdef object drop(self, Association association)
    cpdef object clear(self)
    @cython.locals(wanted=cython.int)
    cdef object _adjust(self, Association association)
    cdef object _watch(self, object fd, int wanted)
    cdef object _let_rest(self, Association association)
