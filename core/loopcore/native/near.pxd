# The readiness table's entries of small descriptors: a list by their numbers, which answers without a hash.

cdef extern from *:
    """
    /* What stands in `table` at the place that the int `number` names; None if there is no such place, or another type. */
    static inline PyObject *
    loopcore_find_near(PyObject *table, PyObject *number)
    {
        Py_ssize_t place = -1;
        if (PyLong_CheckExact(number)) {
    #if PY_VERSION_HEX >= 0x030C0000
            if (PyUnstable_Long_IsCompact((PyLongObject *)number)) {
                place = PyUnstable_Long_CompactValue((PyLongObject *)number);
            }
    #else
            if (Py_SIZE(number) == 1) {
                place = (Py_ssize_t)((PyLongObject *)number)->ob_digit[0];
            }
    #endif
        }
        return Py_NewRef((size_t)place < (size_t)PyList_GET_SIZE(table) ? PyList_GET_ITEM(table, place) : Py_None);
    }
    """
    object find_near "loopcore_find_near" (list table, object number)
