# The bytearray of unread data in asyncio's StreamReader, and a check that classes are unchanged.

cdef extern from *:
    """
    #include <string.h>

    /* `buffer.extend(data)`, for exactly a bytearray and exactly bytes. Raises BufferError if it is exported. */
    static inline int
    loopcore_append(PyObject *buffer, PyObject *data)
    {
        Py_ssize_t before = PyByteArray_GET_SIZE(buffer), size = PyBytes_GET_SIZE(data);
        if (PyByteArray_Resize(buffer, before + size) < 0) {
            return -1;
        }
        memcpy(PyByteArray_AS_STRING(buffer) + before, PyBytes_AS_STRING(data), (size_t)size);
        return 0;
    }

    /* Whether the bytearray is longer than twice the number `limit`. */
    static inline int
    loopcore_is_longer_than_twice(PyObject *buffer, PyObject *limit)
    {
        PyObject *size, *twice;
        int longer = -1;
        if (PyLong_CheckExact(limit)) {
            int overflow;
            long long number = PyLong_AsLongLongAndOverflow(limit, &overflow);
            if (!overflow) {
                return PyByteArray_GET_SIZE(buffer) / 2.0 > (double)number;
            }
        }
        size = PyLong_FromSsize_t(PyByteArray_GET_SIZE(buffer));
        twice = size == NULL ? NULL : PyNumber_Add(limit, limit);
        if (twice != NULL) {
            longer = PyObject_RichCompareBool(size, twice, Py_GT);
            Py_DECREF(twice);
        }
        Py_XDECREF(size);
        return longer;
    }

    /* Whether calling `name` of `object` calls `function` with it. */
    static inline int
    loopcore_calls(PyObject *object, PyObject *name, PyObject *function)
    {
        PyObject *method = PyObject_GetAttr(object, name);
        int same;
        if (method == NULL) {
            if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
                return -1;
            }
            PyErr_Clear();
            return 0;
        }
        same = PyMethod_Check(method) && PyMethod_GET_FUNCTION(method) == function && PyMethod_GET_SELF(method) == object;
        Py_DECREF(method);
        return same;
    }

    /* A number that changes as soon as an attribute of the class, or of one of its bases, changes; 0 until an attribute
     * of the class is first looked up. */
    #define loopcore_version_of(type) (((PyTypeObject *)(type))->tp_version_tag)
    """
    int append "loopcore_append" (bytearray buffer, bytes data) except -1
    bint is_longer_than_twice "loopcore_is_longer_than_twice" (bytearray buffer, object limit) except -1
    bint calls "loopcore_calls" (object object, str name, object function) except -1
    unsigned int version_of "loopcore_version_of" (object type) noexcept
