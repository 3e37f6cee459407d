# Stands by itself: it has no module in Python.


cdef extern from *:
    """
    /* Whether an object itself, and not only its class, has an attribute of this name. 3.12 and 3.14 create the
     * loop's dict for this check, 3.13 does not. Only 3.12 and 3.13 call methods faster on an object without a dict
     * (docs/adr/0007). */
    static inline int
    loopcore_has_itself(PyObject *object, PyObject *name)
    {
        PyObject *dict;
        int found;
        if (Py_TYPE(object)->tp_dictoffset == 0) {
            return 0;
        }
    #ifdef Py_GIL_DISABLED
        dict = PyObject_GenericGetDict(object, NULL);
        if (dict == NULL) {
            return -1;
        }
    #else
        PyObject **place = _PyObject_GetDictPtr(object);
        if (place == NULL || *place == NULL) {
            return 0;
        }
        dict = Py_NewRef(*place);
    #endif
        found = PyDict_Contains(dict, name);
        Py_DECREF(dict);
        return found;
    }
    """
    bint has_itself "loopcore_has_itself" (object object, object name) except -1
