from cpython.object cimport PyObject

from loopcore.kernel.queues cimport Queues
from loopcore.kernel.registry cimport leave_task


cdef extern from *:
    """
    /* Whether dropping one reference frees an object. Without the GIL this cannot be known, so the answer is yes. */
    static inline int
    loopcore_is_sole_reference(PyObject *object)
    {
    #ifdef Py_GIL_DISABLED
        return 1;
    #else
        return Py_REFCNT(object) == 1;
    #endif
    }

    /* Whether an object itself, and not only its class, has an attribute of this name. 3.12 and 3.14 create the
     * loop's dict for this check, 3.13 does not. Only 3.12 and 3.13 call methods faster on an object without a dict
     * (docs/adr/0007). */
    static inline int
    loopcore_has_itself(PyObject *object, PyObject *name)
    {
        PyObject *dict;
        int found;
        if (Py_TYPE(object)->tp_dictoffset == 0) {
            return 0;
        }
    #ifdef Py_GIL_DISABLED
        dict = PyObject_GenericGetDict(object, NULL);
        if (dict == NULL) {
            return -1;
        }
    #else
        PyObject **place = _PyObject_GetDictPtr(object);
        if (place == NULL || *place == NULL) {
            return 0;
        }
        dict = Py_NewRef(*place);
    #endif
        found = PyDict_Contains(dict, name);
        Py_DECREF(dict);
        return found;
    }
    """
    bint has_itself "loopcore_has_itself" (object object, object name) except -1
    bint is_sole_reference "loopcore_is_sole_reference" (PyObject *object) noexcept


cdef class TaskQueues(Queues):
    cdef object _task_type
    cdef bint _steps_task
    cdef bint _leave_deferred
    cdef bint _has_own_call_soon
    cdef PyObject *_left

    cdef int _leave_current_task(self) except -1


# Whether entering the next task would destroy the task that was left as the current one. The pointer is borrowed from
# asyncio's dict, and valid while `_leave_deferred` is set.
cdef inline bint goes_with_the_next(TaskQueues queues) noexcept:
    return is_sole_reference(queues._left)
