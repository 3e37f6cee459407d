from loopcore.kernel.queues cimport Queues
from loopcore.kernel.registry cimport leave_task


cdef class TaskQueues(Queues):
    cdef object _task_type
    cdef bint _steps_task
    cdef bint _task_left
    cdef bint _has_own_call_soon

    cdef object _hide_task(self)
