from loopcore.kernel.reactor cimport Reactor
from loopcore.kernel.task cimport make_task as make_plain_task
from loopcore.kernel.visible cimport make_task as make_visible_task

cdef bint _VISIBLE


cdef class Scheduler(Reactor):
    cdef object _future_class
    cdef object _task_class
    cdef object _task_factory
    cdef bint _own_tasks

    cdef object _create_by_rule(self, object coro, object name, object context, dict options)


cdef inline object make_task(Scheduler loop, object coro, object name, object context):
    if _VISIBLE:
        return make_visible_task(loop, coro, name, context)
    return make_plain_task(loop, coro, name, context)
