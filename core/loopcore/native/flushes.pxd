# What waits for the end of the tick: a list of the loop, whose item may leave before if it is the only one.

from cpython.object cimport PyObject

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

    /* list.append(); the list has room nearly always, since those who empty it leave it that. */
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
    # The same two, of attributes: no temporary references are taken.
    bint take_only_borrowed "loopcore_take_only" (PyObject *items, PyObject *item) noexcept
    int add_borrowed "loopcore_add" (PyObject *items, PyObject *item) except -1
