cimport cython

cdef size_t _ARGUMENT_SIZE
cdef long long _NANOSECONDS
cdef unsigned int _ENTER_EXT_ARG, _SQ_NEWS, _SQ_OVERFLOW, _SCRATCH_WORDS, _NOTHING, _LOW


@cython.final
cdef class Ring:
    cdef public int fd
    cdef public int end_fd
    cdef public object features
    cdef public bint enabled
    cdef public object owner
    cdef public bint defers
    cdef public unsigned long long tail
    cdef public unsigned int entries
    cdef public object control
    cdef unsigned int enter_flags
    cdef unsigned int sq_mask
    cdef unsigned int cq_mask
    cdef unsigned long long rings_at
    cdef size_t rings_size
    cdef unsigned long long sqes_at
    cdef size_t sqes_size
    cdef unsigned long long argument_at
    cdef unsigned long long timeout_at
    cdef unsigned long long scratch_at
    cdef unsigned int *sq_head
    cdef unsigned int *sq_tail
    cdef unsigned int *sq_flags
    cdef unsigned int *cq_head
    cdef unsigned int *cq_tail
    cdef unsigned int *cqes
    cdef int *results
    cdef unsigned long long *sqes
    cdef unsigned long long *argument
    cdef unsigned long long *timeout
    cdef unsigned long long *scratch

    @cython.locals(fd=cython.int)
    cdef int _setup(self, unsigned int *parameters) except -1
    cdef object _map(self, unsigned int *parameters)
    cdef object _watch_end(self, unsigned int *table, unsigned long long table_at)
    @cython.locals(taken=cython.ulonglong)
    cdef unsigned long long consumed(self)
    @cython.locals(free=cython.uint)
    cdef unsigned int space(self)
    cdef unsigned int scratch_index(self)
    @cython.locals(at=cython.uint, number=cython.ulonglong)
    cdef unsigned long long put(
        self, unsigned long long user_data, unsigned int head, long long fd, unsigned long long offset,
        unsigned long long address, unsigned long long length, unsigned long long flags, unsigned long long extra
    )
    @cython.locals(at=cython.uint, word=cython.uint)
    cdef object blank(self, unsigned long long position)
    cdef bint take_back(self, unsigned long long position)
    cdef bint overflows(self)
    cdef bint idle(self)
    @cython.locals(submit=cython.uint, flags=cython.uint, taken=cython.longlong)
    cdef Py_ssize_t enter(self, unsigned int complete, long long timeout_ns) except? -1
    cpdef object enable(self)
    cpdef object await_owner(self)
    cpdef bint owner_has_ended(self) except -1
    cpdef object close(self)
