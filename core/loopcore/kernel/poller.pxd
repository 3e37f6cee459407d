cimport cython

from loopcore.kernel.completions cimport Completions
from loopcore.kernel.loop_clock cimport LoopClock
from loopcore.kernel.readiness cimport Readiness

cdef int _CLOCK_TICKS
cdef Py_ssize_t _MANY_TICKS


@cython.final
cdef class Poller:
    cdef readonly object backend
    cdef readonly Readiness readiness
    cdef readonly Completions completions
    cdef public Py_ssize_t skip_ticks
    cdef public double skip_time
    cdef object _port
    cdef LoopClock _clock
    cdef Py_ssize_t _skipped
    cdef double _skipping_since
    cdef bint _was_idle

    @cython.locals(now=double)
    cpdef bint must_poll(self) except -1
    cpdef object poll_next(self)
    cpdef list wait(self, double timeout)
    cpdef object use(self, object backend)
    cpdef object close(self)
