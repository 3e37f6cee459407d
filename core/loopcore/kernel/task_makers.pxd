cdef class ClassTasks:
    cdef readonly object future_class
    cdef readonly object task_class

    cdef object make_future(self, object loop)
    cdef object make_task(self, object loop, object coro, object name, object context)
