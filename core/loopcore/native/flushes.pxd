# The flushes at the end of the tick: a list of the loop, from which a single item may be removed early.

from cpython.object cimport PyObject

cdef extern from *:
    """
    /* Remove `item` from the list, which keeps its capacity; 0 unless it is the only item. */
    static inline int
    loopcore_take_only(PyObject *list, PyObject *item)
    {
        if (PyList_GET_SIZE(list) != 1 || PyList_GET_ITEM(list, 0) != item) {
            return 0;
        }
        Py_SET_SIZE((PyVarObject *)list, 0);
        Py_DECREF(item);
        return 1;
    }

    /* list.append(); the list nearly always has room, because emptying it keeps its capacity. */
    static inline int
    loopcore_add(PyObject *list, PyObject *item)
    {
    #ifndef Py_GIL_DISABLED
        Py_ssize_t size = PyList_GET_SIZE(list);
        if (size < ((PyListObject *)list)->allocated) {
            PyList_SET_ITEM(list, size, Py_NewRef(item));
            Py_SET_SIZE((PyVarObject *)list, size + 1);
            return 0;
        }
    #endif
        return PyList_Append(list, item);
    }
    """
    bint take_only "loopcore_take_only" (list items, object item) noexcept
    # The same two, for attributes: no temporary references are taken.
    bint take_only_borrowed "loopcore_take_only" (PyObject *items, PyObject *item) noexcept
    int add_borrowed "loopcore_add" (PyObject *items, PyObject *item) except -1
