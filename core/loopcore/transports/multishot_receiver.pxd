cimport cython

from loopcore.kernel.completions cimport Completions
from loopcore.kernel.runnable cimport Runnable
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.ports.operations cimport Operation
from loopcore.transports.driver cimport Driver


cdef class MultishotReceiver(Runnable):
    cdef Completions _completions
    cdef Scheduler _scheduler
    cdef readonly Driver _driver
    cdef Operation _operation
    cdef Operation _next
    cdef object _held
    cdef bint _run_scheduled
    cdef bint _cancelled
    cdef bint _is_more

    cpdef object use(self, Operation operation)
    cpdef object start(self)
    cpdef object rearm(self)
    cpdef object stop(self)
    cpdef object release(self)
    cdef object _submit(self)
    @cython.locals(operation=Operation, driver=Driver)
    cpdef object _run(self)
    cdef object _hand_over(self, Driver driver, object result)
    cpdef object _deliver(self, Driver driver, object result)
    cdef object _run_seldom(self, Driver driver, object result)
    cpdef object push_back(self, object result)
    cdef bint _is_expected_termination(self, object error) except -1
