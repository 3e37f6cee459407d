cimport cython

from loopcore._native.threads cimport shared
from loopcore.ports.direct cimport DirectPort
from loopcore.ports.operations cimport Operation
from loopcore_backends.uring.life cimport Life
from loopcore_backends.uring.requests cimport Requests
from loopcore_backends.uring.results cimport Results
from loopcore_backends.uring.ring cimport Ring
from loopcore_backends.uring.slots cimport Slot, Slots


cdef class UringBackend(DirectPort):
    cdef object _waker
    cdef Requests _requests
    cdef Results _results
    cdef Slots _slots
    cdef object _without
    cdef long long _pid
    cdef Life _life
    cdef shared _owner
    cdef shared _inside
    cdef object _posted
    cdef shared _closed
    cdef public bint _has_ring
    cdef object _unfinished
    cdef object _ending

    @cython.locals(thread=cython.ulong)
    cpdef object submit(self, Operation operation)
    @cython.locals(slot=Slot, thread=cython.ulong)
    cpdef object cancel(self, Operation operation)
    cdef object _post(self, bint submits, Operation operation, Slot slot)
    cdef object _await_call(self, unsigned long thread)
    @cython.locals(operation=Operation)
    cdef object _do_posted(self)
    @cython.locals(slot=Slot)
    cdef object _submit_posted(self, Operation operation)
    @cython.locals(slot=Slot, requests=Requests, tail=cython.ulonglong)
    cdef object _submit(self, Operation operation)
    @cython.locals(slot=Slot)
    cdef object _cancel(self, Operation operation)
    @cython.locals(limit=cython.longlong, thread=cython.ulong)
    cpdef object wait(self, object timeout)
    @cython.locals(results=Results, deadline=cython.longlong, blocks=cython.bint)
    cdef object _wait(self, long long limit)
    @cython.locals(results=Results, operation=Operation)
    cdef object _take(self)
    @cython.locals(results=Results, operation=Operation)
    cdef object _count_awaited(self)
    @cython.locals(slot=Slot, results=Results, quiet=cython.bint)
    cdef bint _may_block(self) except -1
    @cython.locals(code=cython.longlong)
    cdef object _enter(self, int complete, long long limit)
    @cython.locals(requests=Requests)
    cdef object _harvest(self)
    cdef object _watch(self)
    @cython.locals(slot=Slot, position=Py_ssize_t, portions=Py_ssize_t, requests=Requests, tail=cython.ulonglong)
    cdef object _begin_again(self)
    @cython.locals(ring=Ring, step=cython.int)
    cdef object _drop(self, Slot slot)
    @cython.locals(slot=Slot, old=Requests, ring=Ring, consumed=cython.ulonglong, begun=cython.bint)
    cdef object _move(self)
    cpdef object close(self)
    @cython.locals(slot=Slot, operation=Operation, ring=Ring)
    cdef object _end(self)
    @cython.locals(slot=Slot, ring=Ring, code=cython.longlong)
    cdef object _end_everything(self)
