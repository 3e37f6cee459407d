# What waits for the end of the tick: a list of the loop, whose last item may leave before.

cdef extern from *:
    """
    /* Take `item` off the end of the list, which keeps its room; 0 if something else is there, or nothing. */
    static inline int
    loopcore_take_last(PyObject *list, PyObject *item)
    {
        Py_ssize_t last = PyList_GET_SIZE(list) - 1;
        if (last < 0 || PyList_GET_ITEM(list, last) != item) {
            return 0;
        }
        Py_SET_SIZE((PyVarObject *)list, last);
        Py_DECREF(item);
        return 1;
    }
    """
    bint take_last "loopcore_take_last" (list items, object item) noexcept
