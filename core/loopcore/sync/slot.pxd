from loopcore.sync.waiting cimport Crowd, Subject, Waiter

cdef object _PENDING


cdef class Slot:
    cdef readonly object lock
    cdef public object value
    cdef readonly Py_ssize_t version
    cdef public Py_ssize_t senders
    cdef public Py_ssize_t receivers
    cdef readonly Crowd crowd
    cdef readonly Crowd abandonment

    cpdef object put(self, object value)


cdef class View(Subject):
    cdef readonly Slot slot
    cdef public Py_ssize_t seen
    cdef readonly Py_ssize_t tried
    cdef public bint is_open
    cdef readonly dict claims

    cdef bint is_over(self, object argument) except -1
