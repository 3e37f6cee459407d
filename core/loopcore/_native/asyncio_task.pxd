# Declares asyncio_task.h. An interpreted class inherits from `asyncio.Task` itself.

cdef extern from "loopcore/_native/asyncio_task.h":
    ctypedef class _asyncio.Task [object loopcore_asyncio_task, check_size error]:
        pass

    int begin_as "loopcore_begin" (object base, object task, tuple args, dict named) except -1
