cimport cython
from cpython.object cimport PyObject

from loopcore._native.interpreter cimport send_or_throw
from loopcore.kernel.future cimport Future, as_public
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.kernel.registry cimport delist_elsewhere, enlist_elsewhere
from loopcore._native.tasks cimport list_task, unlist_task

cdef int _PENDING
cdef int _CANCELLED
cdef int _FINISHED
cdef int _RETURNED
cdef int _YIELDED
cdef bint _LISTS
cdef object _COROUTINE
cdef int _TASK
cdef int _WATCHING_HANDLES
cdef int _ENDED_WELL
cdef int _ENDED_FAILED
cdef int _ENDED_CANCELLED
cdef int _QUEUED
cdef int _BEGINS
cdef int _ENDS


cdef class Task(Future):
    cdef public object _coro
    cdef readonly object _context
    cdef public object _name
    cdef long long _number
    cdef public object _fut_waiter
    cdef object _thrown
    cdef Py_ssize_t _registration
    cdef int _how
    cdef public bint _must_cancel
    cdef public bint _has_public
    cdef public bint _log_destroy_pending
    cdef public int _num_cancels_requested
    cdef public unsigned int _label

    cdef object _run(self)
    cpdef object _as_public(self)
    cdef int _source(self) except -1
    cdef object _work(self)
    cdef unsigned int _get_label(self) noexcept
    cdef void _set_label(self, unsigned int label) noexcept
    cdef int _ending(self) noexcept
    cdef bint _is_new(self) noexcept
    cdef object _given_name(self)
    cdef int _discard(self) except -1
    cdef int _schedule_step(self) except -1
    cdef int _step(self, object context) except -1
    cdef object _take_thrown(self)
    cdef int _advance(self, object thrown, object context) except -1
    @cython.locals(future=Future)
    cdef int _wait_for(self, object yielded) except -1
    cdef int _suspend_on(self, object future) except -1
    @cython.locals(awaited=Future)
    cdef int _link(self, object future) except -1
    cdef int _finish(self, object result) except -1
    cdef int _finish_cancelled(self, object exc) except -1
    cdef int _finish_failed(self, object exc) except -1
    cdef int _schedule_callbacks(self) except -1
    cdef int _announce(self, str hook) except -1
    cdef int _tell(self, int event) except -1


@cython.locals(task=Task)
cpdef Task make_task(Scheduler loop, object coro, object name, object context)
@cython.locals(step=Task)
cdef Task make_step(Scheduler loop, object coro, object context, object task, object name)


cdef inline object advance(Task task, object thrown, object context):
    return send_or_throw(task._coro, thrown, context, &task._how)


# The counterparts of `enlist` and `delist` in registry.py, for the list in loopcore/_native/tasks.h.
cdef inline int enlist(Task task) except -1:
    if task._registration:
        return 0  # `__init__` was called again; a second entry would outlive the task
    if _LISTS:
        list_task(<PyObject *>task, &task._registration)
    else:
        if not task._has_public:
            enlist_elsewhere(task)
        task._registration = 1
    return 0


cdef inline int delist(Task task) except -1:
    if task._registration == 0:
        return 0
    if _LISTS:
        unlist_task(&task._registration)
    else:
        task._registration = 0
        if not task._has_public:
            delist_elsewhere(task)
    return 0
