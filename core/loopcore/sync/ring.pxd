cimport cython

from loopcore.sync.waiting cimport Crowd, Permits, Subject, Waiter

cdef object _PENDING
cdef int _LAG
cdef int _WAIT


cdef class Ring(Subject):
    cdef readonly Py_ssize_t capacity
    cdef int policy
    cdef readonly Py_ssize_t head
    cdef readonly Py_ssize_t tail
    cdef readonly long long dropped
    cdef public Py_ssize_t senders
    cdef public Py_ssize_t readers
    cdef readonly Crowd crowd
    cdef Permits _room
    cdef readonly list _values
    cdef list _due

    @cython.locals(place=Py_ssize_t)
    cdef Py_ssize_t put(self, object value) except -1
    @cython.locals(place=Py_ssize_t, due=Py_ssize_t)
    cdef object read(self, Py_ssize_t number)
    @cython.locals(place=Py_ssize_t)
    cdef object forget(self)
    @cython.locals(number=Py_ssize_t)
    cdef object pass_by(self, Py_ssize_t first)


cdef class Cursor(Subject):
    cdef readonly Ring ring
    cdef Py_ssize_t next
    cdef readonly long long missed
    cdef bint is_open
    cdef Waiter _claimer
    cdef bint _are_others_waiting
