cdef class WriteControl:
    cdef public object _loop
    cdef public bint _paused
    cdef public bint _connection_lost
    cdef public list _drain_waiters

    cdef object _lose_connection(self, object exc)
    cdef object _end_waiting(self, object exc)
    cdef object _begin_waiting(self)
    cdef object _leave_waiting(self, object waiter)
