cimport cython

cdef unsigned int _SPENT, _ENTRY_SIZE


@cython.final
cdef class Buffers:
    cdef readonly object memory
    cdef readonly object table
    cdef public Py_ssize_t size
    cdef public Py_ssize_t available
    cdef public Py_ssize_t provided
    cdef public Py_ssize_t limit
    cdef public unsigned int mask
    cdef public bint incremental
    cdef public list returned
    cdef unsigned long long tail
    cdef unsigned long long address
    cdef unsigned long long *entries
    cdef unsigned short *tails
    cdef unsigned int *places
    cdef unsigned int *lent

    cpdef Py_ssize_t portions(self) except -1
    cpdef object grow(self, Py_ssize_t wanted)
    @cython.locals(place=cython.uint, word=cython.ulonglong)
    cdef object provide(self, unsigned int number)
    cdef object publish(self)
    @cython.locals(place=cython.uint)
    cdef unsigned int following(self, unsigned int number, unsigned int steps)
    @cython.locals(start=cython.ulonglong)
    cdef bytes copy(self, unsigned int number, Py_ssize_t size)
    @cython.locals(count=cython.uint, step=cython.uint, place=cython.uint)
    cdef object release(self, unsigned int number, Py_ssize_t size, bint more, bint lent)
    @cython.locals(step=cython.uint)
    cdef bint _is_row(self, unsigned int number, unsigned int count)
    @cython.locals(part=Py_ssize_t, step=cython.uint, start=cython.ulonglong)
    cdef bytes _gather(self, unsigned int number, Py_ssize_t size)
    @cython.locals(start=Py_ssize_t)
    cdef object lend(self, unsigned int number, Py_ssize_t size)
    @cython.locals(number=cython.uint)
    cdef object reclaim(self)


@cython.final
cdef class Loan:
    cdef public object view
    cdef Buffers _buffers
    cdef unsigned int _number
    cdef bint _given

    cpdef object give_back(self)
