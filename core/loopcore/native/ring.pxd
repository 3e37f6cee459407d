# Items of a list that is used as a ring: each place holds an item or None, and whoever takes one leaves the other. As the
# list's own `[]` does it, but for two tests of what the caller knows, and for a reference that is moved, not copied.

from loopcore.native.cpython cimport raise_pending  # whose C this stands upon

cdef extern from *:
    """
    /* The item at `index`, which must be within the list, with the reference that the list had; None takes its place. */
    static inline PyObject *
    loopcore_take_item(PyObject *list, Py_ssize_t index)
    {
        PyObject *item = PyList_GET_ITEM(list, index);
        PyList_SET_ITEM(list, index, loopcore_none());
        return item;
    }

    /* Put an item in the place of a None. */
    static inline void
    loopcore_put_item(PyObject *list, Py_ssize_t index, PyObject *item)
    {
        Py_INCREF(item);
        PyList_SET_ITEM(list, index, item);
    #if PY_VERSION_HEX < 0x030C0000
        Py_DECREF(Py_None);
    #endif
    }

    /* The last item, as list.pop() of a list that is not empty, but the list keeps its room, and so nothing can fail. */
    static inline PyObject *
    loopcore_take_last(PyObject *list)
    {
        Py_ssize_t last = PyList_GET_SIZE(list) - 1;
        PyObject *item = PyList_GET_ITEM(list, last);
        Py_SET_SIZE((PyVarObject *)list, last);
        return item;
    }

    /* As list.clear(), but the list keeps its room. */
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
    object take_item "loopcore_take_item" (list ring, Py_ssize_t index)
    object take_last "loopcore_take_last" (list items)
    void put_item "loopcore_put_item" (list ring, Py_ssize_t index, object item) noexcept
    void empty "loopcore_empty" (list items) noexcept
