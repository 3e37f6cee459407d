cimport cython

from loopcore.kernel.handle cimport Handle
from loopcore.kernel.loop_stats cimport LoopStats
from loopcore.kernel.microtasks cimport MicrotaskQueues
from loopcore.kernel.runnable cimport Runnable


cdef class CallbackRunner:
    cdef LoopStats _stats
    cdef MicrotaskQueues _microtasks
    cdef object _probes

    cdef int run(self, Runnable runnable) except -1
    cdef int run_alone(self, Runnable runnable) except -1
    @cython.locals(left=Py_ssize_t, handle=Handle)
    cdef object run_microtasks(self)
    cdef int _call(self, Runnable runnable) except -1
    cdef int _call_microtask(self, Handle handle) except -1
    cdef int _report_starvation(self) except -1
