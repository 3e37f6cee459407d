cimport cython

from loopcore.sync.binding cimport LoopBinding

cdef object _PENDING


@cython.final
cdef class Waiter:
    cdef public bint granted
    cdef object _loop
    cdef object _future
    cdef bint _across_threads

    cpdef bint wake(self) except -1
    cpdef bint call(self) except -1


cdef class Subject:
    cdef readonly object lock

    cpdef object attempt(self, object argument)
    cpdef bint enlist(self, Waiter waiter) except -1
    cpdef object complete(self, Waiter waiter, object argument)
    cpdef object withdraw(self, Waiter waiter)
    cpdef bint claim(self, Waiter waiter, object argument) except -1


@cython.final
@cython.freelist(64)
cdef class Operation:
    cdef readonly Subject subject
    cdef readonly object argument
    cdef Waiter _waiter
    cdef bint _is_over
    cdef object __weakref__

    @cython.locals(waiter=Waiter)
    cpdef object close(self)
    cdef object _outcome(self)
    cdef object _suspension(self)
    @cython.locals(waiter=Waiter)
    cdef object _advance(self)


cpdef object operate(Subject subject, object argument=*)
cdef Waiter make_waiter(Subject subject)
cpdef object attempt(Subject subject, object argument)
cpdef object withdraw(Subject subject, Waiter waiter)


@cython.final
cdef class Crowd:
    cdef dict _waiters

    cpdef object enlist(self, Waiter waiter)
    cpdef object withdraw(self, Waiter waiter)
    @cython.locals(waiters=list, waiter=Waiter)
    cpdef object wake(self)
    @cython.locals(waiters=list, waiter=Waiter)
    cpdef object call(self)


@cython.final
cdef class Permits:
    cdef readonly Py_ssize_t free
    cdef object _waiters

    cpdef bint take(self) except -1
    cpdef bint enlist(self, Waiter waiter) except -1
    @cython.locals(waiter=Waiter)
    cpdef object give(self)
    cpdef object withdraw(self, Waiter waiter)
    @cython.locals(waiters=list, waiter=Waiter)
    cpdef object wake_all(self)
