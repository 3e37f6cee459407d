cimport cython

from loopcore.kernel.runnable cimport Runnable
from loopcore.ports.operations cimport Operation, Poll

cdef int _SEND


@cython.final
cdef class Completions:
    cdef public object backend
    cdef public Polls polls
    cdef public list late
    cdef public list handed
    cdef public bint submitted
    cdef public bint is_used
    cdef public bint polls_cheaply
    cdef bint _is_closed

    cpdef object submit(self, Operation operation)
    cpdef object cancel(self, Operation operation)
    cpdef object wait(self, object timeout)
    @cython.locals(submitted=bint)
    cdef list _dequeue(self, object timeout)
    @cython.locals(
        completion=tuple, operation=Operation, target=Runnable, wanted=list, noted=list, position=Py_ssize_t
    )
    cdef list _noted(self, list completions)
    @cython.locals(broken=list)
    cpdef object keep(self, list completions, object error)
    cpdef object begin(self)
    @cython.locals(operation=Operation)
    cpdef object close(self)


@cython.final
cdef class Polls:
    cdef Completions _completions
    cdef list _fired
    cdef dict _table
    cdef set _gone

    @cython.locals(poll=Poll)
    cpdef object modify(self, object fd, int interest)
    cdef int _park(self, object fd, Poll poll) except -1
    cpdef int take(self, Operation poll) except -1
    @cython.locals(poll=Poll)
    cpdef object rearm(self)
    cpdef object clear(self)
    cpdef object _watch(self, object fd, int interest)
