# list.clear() of a list that is filled again at once: it keeps its capacity.

cdef extern from *:
    """
    static inline void
    loopcore_empty(PyObject *list)
    {
        while (PyList_GET_SIZE(list) > 0) {
            Py_ssize_t last = PyList_GET_SIZE(list) - 1;
            PyObject *item = PyList_GET_ITEM(list, last);
            Py_SET_SIZE((PyVarObject *)list, last);
            Py_DECREF(item);
        }
    }
    """
    void empty "loopcore_empty" (list items) noexcept
