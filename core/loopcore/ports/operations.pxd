cdef class Operation:
    cdef public int code
    cdef public Py_ssize_t fd
    cdef public object target
    cdef public object result
    cdef public bint pending
    cdef public bint quiet
    cdef public object slot


cdef class Accept(Operation):
    pass


cdef class Connect(Operation):
    cdef public object address


cdef class Receive(Operation):
    cdef public Py_ssize_t limit
    cdef public bint lend


cdef class Outgoing(Operation):
    cdef public object buffers
    cdef public Py_ssize_t head


cdef class Send(Outgoing):
    pass


cdef class ReceiveFrom(Operation):
    cdef public Py_ssize_t limit


cdef class SendTo(Operation):
    cdef public object buffer
    cdef public object address


cdef class Shutdown(Operation):
    cdef public int how


cdef class Poll(Operation):
    cdef public int interest
    cdef public bint edges


cdef class Read(Operation):
    cdef public Py_ssize_t limit
    cdef public long long offset


cdef class Write(Outgoing):
    cdef public long long offset


cdef class SendFile(Operation):
    cdef public int file
    cdef public long long offset
    cdef public long long count


cdef class WaitProcess(Operation):
    cdef public int pid


cdef class Open(Operation):
    cdef public bytes path
    cdef public int flags
    cdef public int mode


cdef class Sync(Operation):
    cdef public bint data_only


cdef class Stat(Operation):
    cdef public bytes path
    cdef public bint follow


cdef class Close(Operation):
    pass
