# list.append() for lists that are emptied and filled again at once.

from cpython.object cimport PyObject

cdef extern from *:
    """
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
    # For attributes: no temporary references are taken.
    int add_borrowed "loopcore_add" (PyObject *items, PyObject *item) except -1
