cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF

from loopcore.kernel.future cimport Future, deliver, empty_future, seen
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.kernel.registry cimport delist_elsewhere, enlist_elsewhere, enter_task
from loopcore.native.cpython cimport PYGEN_ERROR, PYGEN_RETURN, PySendResult, send
from loopcore.native.task_freelist cimport use_freelist
from loopcore.native.tasks cimport list_task, unlist_task
from loopcore.native.tracking cimport untrack

cdef int _PENDING
cdef int _CANCELLED
cdef int _FINISHED
cdef bint _LISTS
cdef object _COROUTINE


cdef class Task(Future):
    cdef public object _coro
    cdef readonly object _context
    cdef public object _name
    cdef long long _number
    cdef public object _fut_waiter
    cdef object _thrown
    cdef Py_ssize_t _registration
    cdef bint _returned
    cdef public bint _must_cancel
    cdef public bint _is_seen
    cdef public bint _log_destroy_pending
    cdef public int _num_cancels_requested

    @cython.locals(thread=cython.p_void)
    cdef object _run(self)
    cpdef object _as_seen(self)
    cdef int _give_up(self) except -1
    cdef int _schedule_step(self) except -1
    @cython.locals(by_tick=bint)
    cdef int _step(self) except -1
    cdef object _take_thrown(self)
    cdef int _advance(self, object thrown) except -1
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


@cython.locals(task=Task)
cpdef Task make_task(Scheduler loop, object coro, object name, object context)
@cython.locals(step=Task)
cdef Task make_step(Scheduler loop, object coro, object context, object shown)


cdef extern from *:
    """
    /* Reset the attributes of a task that a future does not have. */
    #define loopcore_empty_task(task) \
        do { \
            loopcore_let_go((task)->_coro); \
            loopcore_let_go((task)->_context); \
            loopcore_let_go((task)->_name); \
            loopcore_let_go((task)->_fut_waiter); \
            loopcore_let_go((task)->_thrown); \
            (task)->_number = 0; \
            (task)->_is_seen = (task)->_returned = (task)->_must_cancel = (task)->_log_destroy_pending = 0; \
            (task)->_num_cancels_requested = 0; \
        } while (0)
    """
    void empty_task "loopcore_empty_task" (Task task) noexcept


# As `end_future`, for `make_task`.
@cython.nonecheck(False)
cdef inline bint end_task(PyObject *ended) noexcept:
    task = <Task>ended
    if task._registration:
        return False
    if not task._is_seen and (task._log_traceback_flag or (task._status == _PENDING and task._log_destroy_pending)):
        return False
    untrack(task)
    empty_task(task)
    empty_future(task)
    return True


cdef inline object set_class_up():
    use_freelist(Task, end_task)


# Here and below, attributes are not copied into local variables: those would take and give back references.


@cython.nonecheck(False)
cdef inline bint went_well(Future future) noexcept:
    return future._status == _FINISHED and future._exception is None


# Whether the next step throws no exception, as nearly all steps; if so, release the future that the task waited for.
@cython.nonecheck(False)
cdef inline bint needs_no_throw(Task task) noexcept:
    if task._thrown is not None or task._must_cancel:
        return False
    if task._fut_waiter is not None:
        if type(task._fut_waiter) is not Future or not went_well(<Future>task._fut_waiter):
            return False
        task._fut_waiter = None
    return True


# A step without an exception to throw: like `advance` in loopcore/native/interpreted.py and the code after it, by
# PyIter_Send. No StopIteration is raised and caught, and no exception handler is set up: `_advance` handles exceptions.
@cython.nonecheck(False)
cdef inline int resume(Task task) except -1:
    cdef PyObject *outcome = NULL
    cdef PySendResult status = send(task._coro, None, &outcome)
    if status == PYGEN_ERROR:
        task._advance(None)
        return 0
    yielded = <object>outcome
    Py_DECREF(yielded)
    if status == PYGEN_RETURN:
        task._finish(yielded)
    elif yielded is None:
        task._schedule_step()
    else:
        task._wait_for(yielded)
    return 0


# The counterparts of `enlist` and `delist` in registry.py, for the list in loopcore/native/tasks.pxd.
cdef inline int enlist(Task task) except -1:
    if task._registration:
        return 0  # `__init__` was called again; a second entry would outlive the task
    if _LISTS:
        list_task(<PyObject *>task, &task._registration)
    else:
        if not task._is_seen:
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
        delist_elsewhere(seen(task))
    return 0
