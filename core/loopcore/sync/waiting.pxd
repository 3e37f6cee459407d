# Compiled, an operation returns its result through `am_send`, as coroutines do, where the interpreter supports that
# (`await` up to Python 3.11, tasks): no StopIteration is created. Cython cannot express this, so the slot is set here.

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

from loopcore._native.interpreter cimport PYGEN_ERROR, PYGEN_NEXT, PYGEN_RETURN, PySendResult
from loopcore.sync.binding cimport LoopBinding

cdef extern from *:
    """
    typedef PySendResult (*loopcore_sender)(PyObject *, PyObject *, PyObject **);

    static int
    loopcore_set_am_send(PyObject *type, loopcore_sender sender)
    {
        ((PyTypeObject *)type)->tp_as_async->am_send = (sendfunc)sender;
        return 0;
    }
    """
    ctypedef PySendResult (*Sender "loopcore_sender")(PyObject *, PyObject *, PyObject **) except PYGEN_ERROR
    int set_am_send "loopcore_set_am_send" (object type, Sender sender) except -1

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
cpdef Waiter make_waiter(Subject subject)
cpdef Waiter adopt(Subject subject, Waiter waiter)
cpdef object attempt(Subject subject, object argument)
cpdef object withdraw(Subject subject, Waiter waiter)


@cython.final
cdef class Crowd:
    cdef dict _waiters

    cpdef object enlist(self, Waiter waiter)
    cpdef object withdraw(self, Waiter waiter)
    @cython.locals(waiters=dict, waiter=Waiter)
    cpdef object wake(self)
    @cython.locals(waiters=dict, waiter=Waiter)
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
    @cython.locals(waiter=Waiter)
    cpdef object wake_all(self)


cdef inline PySendResult send_to_operation(PyObject *operation, PyObject *value, PyObject **result) except PYGEN_ERROR:
    result[0] = NULL  # required if this raises
    cdef object outcome = (<Operation>operation)._outcome()
    cdef bint waits = outcome is _PENDING
    if waits:
        outcome = (<Operation>operation)._suspension()
    Py_INCREF(outcome)
    result[0] = <PyObject *>outcome
    return PYGEN_NEXT if waits else PYGEN_RETURN


cdef inline object answer_without_exceptions():
    set_am_send(Operation, send_to_operation)
