# Declares tasks.h. Interpreted tasks are in a WeakSet (kernel/registry.py).

from cpython.object cimport PyObject

cdef extern from "loopcore/_native/tasks.h":
    int list_task "loopcore_list_task" (PyObject *task, Py_ssize_t *place) except -1
    void unlist_task "loopcore_unlist_task" (Py_ssize_t *place) noexcept
    list tasks_listed "loopcore_tasks_listed" ()
    long long next_number "loopcore_next_number" () noexcept
