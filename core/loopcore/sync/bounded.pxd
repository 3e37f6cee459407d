from loopcore.sync.waiting cimport Permits, Subject, Waiter

cdef object _PENDING


cdef class Sending(Subject):
    cdef readonly Queue queue


cdef class Queue(Subject):
    cdef readonly Py_ssize_t capacity
    cdef readonly object values
    cdef readonly Permits room
    cdef readonly Permits present
    cdef public Py_ssize_t senders
    cdef public Py_ssize_t receivers

    cdef object append(self, object value)
    cdef object pop(self)
    cdef object check_open(self)
    cdef object check_more_may_come(self)
    cdef object close(self)
