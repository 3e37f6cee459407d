cimport cython

from loopcore.kernel.dispatch cimport Dispatcher
from loopcore.kernel.order cimport Allowance, OrderedQueue
from loopcore.kernel.runnable cimport Runnable

cdef int _CLOSED
cdef int _PENDING_PHASE
cdef Py_ssize_t _VERY_MANY


cdef class PolicyDispatcher(Dispatcher):
    cdef Py_ssize_t _skipped
    cdef OrderedQueue _order
    cdef object _order_owner
    cdef Allowance _allowance
    cdef object _allowance_owner

    @cython.locals(count=Py_ssize_t, ran=Py_ssize_t, order=OrderedQueue, allowance=Allowance, runnable=Runnable)
    cdef int _run_pending_by_policy(self) except -1
    @cython.locals(order=OrderedQueue, arrived=list, rest=list, position=Py_ssize_t, runnable=Runnable)
    cdef Py_ssize_t _begin_by_policy(self) except -1
    cdef Runnable _pop_by_policy(self, OrderedQueue order)
    @cython.locals(order=OrderedQueue, back=list, runnable=Runnable)
    cdef int _release_order(self) except -1
