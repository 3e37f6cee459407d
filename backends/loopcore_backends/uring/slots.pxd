cimport cython

from loopcore.ports.operations cimport Operation

cdef int _PLAIN


@cython.final
cdef class Slot:
    cdef public Operation operation
    cdef public int code
    cdef public long long fd
    cdef public object keep
    cdef public Py_ssize_t size
    cdef public unsigned long long position
    cdef public int requests
    cdef public int step
    cdef public bint asked
    cdef public bint cancelled
    cdef public unsigned int index
    cdef public unsigned int generation
    cdef Slot next_free

    @cython.locals(high=cython.ulonglong)
    cdef unsigned long long user_data(self)


@cython.final
cdef class Slots:
    cdef list _all
    cdef Slot _free
    cdef public Py_ssize_t in_flight

    @cython.locals(slot=Slot, free=Slot)
    cdef Slot take(self, Operation operation)
    cdef object give(self, Slot slot)
    @cython.locals(slot=Slot)
    cdef Slot find(self, unsigned int index, unsigned int generation)
    cpdef list living(self)
