cimport cython

from loopcore.kernel.order cimport Allowance, OrderedQueue
from loopcore.kernel.runnable cimport Runnable
from loopcore.kernel.scheduler cimport Scheduler

cdef int _CLOSED


cdef class PendingPolicy:
    cdef OrderedQueue _order
    cdef object _order_owner
    cdef Allowance _allowance
    cdef object _allowance_owner

    cpdef bint directs_pending(self) except -1
    @cython.locals(order=OrderedQueue)
    cpdef Py_ssize_t count_held(self) except -1
    cpdef object update(self, Scheduler loop)
    @cython.locals(count=Py_ssize_t, ran=Py_ssize_t, order=OrderedQueue, allowance=Allowance, runnable=Runnable)
    cpdef int run_pending(self, Scheduler loop) except -1
    cpdef object drop(self)
    @cython.locals(order=OrderedQueue, arrived=list, rest=list, position=Py_ssize_t, runnable=Runnable)
    cdef Py_ssize_t _begin(self, Scheduler loop) except -1
    cdef Runnable _pop(self, Scheduler loop, OrderedQueue order)
    @cython.locals(order=OrderedQueue)
    cdef OrderedQueue _detach_order(self)
    @cython.locals(order=OrderedQueue, back=list, runnable=Runnable)
    cdef int _release_order(self, Scheduler loop) except -1
