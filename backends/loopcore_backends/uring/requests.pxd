cimport cython

from loopcore.ports.operations cimport Poll
from loopcore_backends.uring.slots cimport Slot
from loopcore_backends.uring.sockets cimport Sockets

cdef unsigned int _SKIP_SUCCESS, _POLL_ADD, _POLL_ADD_MULTI, _POLL_RDHUP
cdef int _SEND_CODE, _RECEIVE_CODE, _SEND_TO_CODE, _POLL_CODE, _BLOCKED


@cython.final
cdef class Requests(Sockets):
    @cython.locals(code=cython.int)
    cdef object begin(self, Slot slot)
    @cython.locals(code=cython.int)
    cdef object _begin_other(self, Slot slot)
    @cython.locals(operation=Poll)
    cdef object _poll(self, Slot slot)
    cdef object _poll_first(self, Slot slot, int events)
    @cython.locals(limit=Py_ssize_t)
    cdef object _read(self, Slot slot)
    cdef object _write(self, Slot slot)
    cdef object _wait_process(self, Slot slot)
    cdef object _open(self, Slot slot)
    cdef object _stat(self, Slot slot)
    cpdef object cancel(self, Slot slot)
    cpdef object cancel_all(self)
    cpdef object watch(self, int fd)
