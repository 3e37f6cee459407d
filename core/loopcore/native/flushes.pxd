# What waits for the end of the tick: a list of the loop, whose item may leave before if it is the only one.

cdef extern from *:
    """
    /* Take `item` out of the list, which keeps its room; 0 if something else is there, before or behind it, or nothing. */
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
    """
    bint take_only "loopcore_take_only" (list items, object item) noexcept
