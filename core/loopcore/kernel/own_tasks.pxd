cimport cython

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.kernel.task_makers cimport ClassTasks

cdef bint _VISIBLE


cdef class OwnTasks(ClassTasks):
    @cython.locals(scheduler=Scheduler)
    cdef object make_future(self, object loop)
