from loopcore.kernel.reactor cimport Reactor


cdef class Scheduler(Reactor):
    cdef object _future_class
    cdef object _task_class
    cdef object _task_factory
    cdef bint _own_tasks

    cdef object _create_by_rule(self, object coro, object name, object context, dict options)
