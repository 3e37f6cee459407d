# The readiness table's entries of small descriptors: a list indexed by descriptor, for look-ups without a hash.

from cpython.object cimport PyObject

cdef extern from *:
    """
    /* The value of a small int; -1 for any other object, on Python 3.11 also for 0. */
    static inline Py_ssize_t
    loopcore_small(PyObject *number)
    {
        if (PyLong_CheckExact(number)) {
    #if PY_VERSION_HEX >= 0x030C0000
            if (PyUnstable_Long_IsCompact((PyLongObject *)number)) {
                return PyUnstable_Long_CompactValue((PyLongObject *)number);
            }
    #else
            if (Py_SIZE(number) == 1) {
                return (Py_ssize_t)((PyLongObject *)number)->ob_digit[0];
            }
    #endif
        }
        return -1;
    }

    /* The entry of `table` at the index `number`, an int; NULL if it is None or out of range. The table itself is None
     * if `__init__` has not run. */
    static inline PyObject *
    loopcore_find_by_fd(PyObject *table, PyObject *number)
    {
        Py_ssize_t place = loopcore_small(number);
        PyObject *found;
        if (table == Py_None || (size_t)place >= (size_t)PyList_GET_SIZE(table)) {
            return NULL;
        }
        found = PyList_GET_ITEM(table, place);
        return found == Py_None ? NULL : found;
    }

    /* The same for the number in `event`, (number, bits), if it has exactly these bits. */
    static inline PyObject *
    loopcore_find_by_event(PyObject *table, PyObject *event, int bits)
    {
        if (!PyTuple_CheckExact(event) || PyTuple_GET_SIZE(event) != 2
            || loopcore_small(PyTuple_GET_ITEM(event, 1)) != bits) {
            return NULL;
        }
        return loopcore_find_by_fd(table, PyTuple_GET_ITEM(event, 0));
    }
    """
    # Takes an attribute, returns a borrowed reference: no temporary references are taken.
    PyObject *find_by_fd "loopcore_find_by_fd" (PyObject *table, PyObject *number) noexcept
    PyObject *find_by_event "loopcore_find_by_event" (PyObject *table, PyObject *event, int bits) noexcept
