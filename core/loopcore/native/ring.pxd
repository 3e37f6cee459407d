# Items of a list that is used as a ring: each place holds an item or None, and reading or writing one replaces the
# other. As the list's own `[]`, without two checks of facts that the caller knows, and with a reference that is moved,
# not copied.

from loopcore.native.cpython cimport raise_pending  # the C code below needs its definitions

cdef extern from *:
    """
    /* Move out the item at `index`, which must be within the list; None replaces it. */
    static inline PyObject *
    loopcore_take_item(PyObject *list, Py_ssize_t index)
    {
        PyObject *item = PyList_GET_ITEM(list, index);
        PyList_SET_ITEM(list, index, loopcore_none());
        return item;
    }

    /* Replace a None by an item. */
    static inline void
    loopcore_put_item(PyObject *list, Py_ssize_t index, PyObject *item)
    {
        Py_INCREF(item);
        PyList_SET_ITEM(list, index, item);
    #if PY_VERSION_HEX < 0x030C0000
        Py_DECREF(Py_None);
    #endif
    }

    /* list.pop() of a list that is not empty; the list keeps its capacity, so this cannot fail. */
    static inline PyObject *
    loopcore_take_last(PyObject *list)
    {
        Py_ssize_t last = PyList_GET_SIZE(list) - 1;
        PyObject *item = PyList_GET_ITEM(list, last);
        Py_SET_SIZE((PyVarObject *)list, last);
        return item;
    }

    /* list.clear(), but the list keeps its capacity. */
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
