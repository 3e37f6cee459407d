cimport cython

from loopcore.ports.operations cimport Operation, Receive, Send
from loopcore_backends.uring.buffers cimport Buffers
from loopcore_backends.uring.ring cimport Ring
from loopcore_backends.uring.slots cimport Slot

cdef unsigned int _SEND, _SENDMSG, _INLINE_FLAGS, _SKIP_SUCCESS, _RECEIVE_ONCE
cdef int _PLAIN, _INLINE, _CONNECTING, _BLOCKED
cdef Py_ssize_t _LARGE, _LONGEST, _JOIN_LIMIT, _SCRATCH_VECTORS, _VECTOR_LIMIT
cdef unsigned int _VECTORS_AT, _NAME_AT


cdef class Sockets:
    cdef public Ring ring
    cdef public Buffers streams
    cdef public Buffers datagrams
    cdef public list inline
    cdef public Py_ssize_t receives
    cdef dict _encoded
    cdef bint _inline_sends
    cdef unsigned int _receive_head
    cdef unsigned long long _vector_at
    cdef Py_ssize_t _vector_count

    cdef object _put(
        self, Slot slot, unsigned int head, long long fd, unsigned long long offset, unsigned long long address,
        unsigned long long length, unsigned long long flags, unsigned long long extra
    )
    @cython.locals(operation=Send, first=Py_ssize_t)
    cdef object _send(self, Slot slot)
    @cython.locals(size=Py_ssize_t)
    cdef object _joined(self, object queue)
    @cython.locals(flags=cython.uint, head=cython.uint)
    cdef object _put_send(
        self, Slot slot, Operation operation, unsigned int opcode, unsigned long long address, unsigned long long length
    )
    @cython.locals(count=Py_ssize_t, position=Py_ssize_t, at=cython.uint, table=cython.p_ulonglong)
    cdef object _vector(self, Slot slot, object buffers, Py_ssize_t first)
    @cython.locals(at=cython.uint)
    cdef unsigned long long _message(self, unsigned long long name_at, unsigned long long name_size)
    @cython.locals(at=cython.uint, name_at=cython.ulonglong)
    cdef object _send_to(self, Slot slot)
    @cython.locals(operation=Receive, limit=Py_ssize_t)
    cdef object _receive(self, Slot slot)
    @cython.locals(at=cython.ulonglong, words=cython.p_ulonglong, size=Py_ssize_t)
    cdef object _receive_from(self, Slot slot)
    cdef bytes _address(self, object address)
    @cython.locals(name_at=cython.ulonglong)
    cdef object _connect(self, Slot slot)
