cimport cython

from loopcore.ports.operations cimport Operation, Receive, ReceiveFrom
from loopcore_backends.uring.buffers cimport Buffers
from loopcore_backends.uring.requests cimport Requests
from loopcore_backends.uring.ring cimport Ring
from loopcore_backends.uring.slots cimport Slot, Slots

cdef int _RECEIVE_CODE, _RECEIVE_FROM_CODE, _POLL_CODE
cdef int _READ_FILE_CODE, _STAT_CODE, _WAIT_CODE, _CONNECT_CODE, _SHUTDOWN_CODE, _SYNC_CODE, _CLOSE_CODE
cdef int _POLL_BITS, _HANGUP_BIT, _RDHUP_BIT
cdef unsigned int _NAME_AT, _NAME_SIZE
cdef int _INLINE, _CONNECTING, _BLOCKED, _STARVED
cdef unsigned int _CQE_BUFFER, _CQE_MORE, _CQE_BUFFER_MORE, _BUFFER_SHIFT
cdef int _AGAIN_ERROR, _CANCELLED_ERROR, _NO_BUFFERS_ERROR, _INTERRUPTED_ERROR
cdef unsigned int _WAKE_GENERATION, _LOW


@cython.final
cdef class Results:
    cdef public list done
    cdef public Py_ssize_t ends
    cdef public list again
    cdef public bint woken
    cdef public bint watching
    cdef Slots _slots

    @cython.locals(
        head=cython.uint, tail=cython.uint, at=cython.uint, flags=cython.uint, slot=Slot, ring=Ring,
        code=cython.int, result=cython.int, streams=Buffers
    )
    cpdef object harvest(self, Requests requests)
    @cython.locals(slot=Slot, operation=Operation, consumed=cython.ulonglong, waiting=list)
    cpdef object settle(self, Requests requests)
    @cython.locals(operation=Receive, more=cython.bint, lent=cython.bint, streams=Buffers)
    cdef object _received(self, Slot slot, int result, unsigned int flags, Requests requests)
    @cython.locals(limit=Py_ssize_t)
    cdef list _pieces(self, Receive operation, object received, bint more)
    cdef object _piece(self, Receive operation, object received)
    @cython.locals(error=cython.int, code=cython.int)
    cdef object _failed(self, Slot slot, int result, Requests requests)
    @cython.locals(step=cython.int, group=Buffers)
    cdef bint _goes_on(self, Slot slot, int code, int error, Requests requests) except -1
    @cython.locals(group=Buffers)
    cdef object _finished(self, Slot slot, int result, unsigned int flags, Requests requests)
    @cython.locals(code=cython.int, at=cython.ulonglong, information=cython.p_uint)
    cdef object _value(self, Slot slot, int result, unsigned int flags, Requests requests)
    cdef object _connected(self, Slot slot)
    @cython.locals(
        operation=ReceiveFrom, at=cython.ulonglong, size=Py_ssize_t, number=cython.uint, group=Buffers,
        prefix=Py_ssize_t
    )
    cdef object _datagram(self, Slot slot, int result, unsigned int flags, Requests requests)
    @cython.locals(operation=Operation)
    cpdef object end(self, Slot slot, object result)
