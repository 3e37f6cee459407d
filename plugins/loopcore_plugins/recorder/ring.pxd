cimport cython

cdef Py_ssize_t _FIRST
cdef unsigned long long _LONGEST
cdef unsigned long long _TICK
cdef int _WRITTEN


@cython.final
cdef class Ring:
    cdef object _memory
    cdef unsigned long long *_words
    cdef unsigned long long _mask
    cdef unsigned long long _written
    cdef unsigned long long _base
    cdef readonly unsigned long long steps

    cpdef object set_word(self, int word, unsigned long long value)
    @cython.locals(now=cython.ulonglong)
    cpdef void put(self, unsigned long long kind, unsigned long long argument, unsigned long long label,
                   unsigned long long who) noexcept
    cdef void add(self, unsigned long long kind, unsigned long long argument, unsigned long long label,
                  unsigned long long who) noexcept
    @cython.locals(now=cython.ulonglong, steps=cython.ulonglong)
    cdef void tick(self, unsigned long long label, unsigned long long now_ns) noexcept
    @cython.locals(place=Py_ssize_t)
    cdef void _store(self, unsigned long long first, unsigned long long second) noexcept
