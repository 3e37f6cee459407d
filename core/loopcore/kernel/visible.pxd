cimport cython

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.kernel.task cimport Task as Step
from loopcore.kernel.task cimport make_step
from loopcore._native.asyncio_task cimport Task as AsyncioTask
from loopcore._native.asyncio_task cimport begin_as

cdef int _PENDING
cdef int _CANCELLED
cdef object _NOWHERE
cdef dict _NAMED
cdef object _get_context


cdef class Nowhere:
    pass


cdef class Task(AsyncioTask):
    cdef public Step _step


cdef inline int begin(Task task, object coro, object name, object context) except -1:
    cdef dict named = _NAMED
    if name is not None or context is not None:
        named = {"loop": _NOWHERE, "name": name, "context": context}
    return begin_as(AsyncioTask, task, (coro,), named)


@cython.locals(task=Task)
cpdef Task make_task(Scheduler loop, object coro, object name, object context)
