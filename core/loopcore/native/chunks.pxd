# Parts of chunks, in C, for the compiled streams.
#
# A chunk is `bytes` or a bytearray. The Python twins are in `interpreted_chunks.py`.

from cpython.object cimport PyObject

cdef extern from *:
    """
    #include <string.h>

    static inline char *
    loopcore_chunk_start(PyObject *chunk)
    {
        return PyBytes_Check(chunk) ? PyBytes_AS_STRING(chunk) : PyByteArray_AS_STRING(chunk);
    }

    static inline Py_ssize_t
    loopcore_chunk_size(PyObject *chunk)
    {
        return PyBytes_Check(chunk) ? PyBytes_GET_SIZE(chunk) : PyByteArray_GET_SIZE(chunk);
    }

    /* chunk[start:end] as bytes, in one copy also of a bytearray. */
    static inline PyObject *
    loopcore_cut(PyObject *chunk, Py_ssize_t start, Py_ssize_t end)
    {
        return PyBytes_FromStringAndSize(loopcore_chunk_start(chunk) + start, end - start);
    }

    /* chunk.find(wanted, start); for a single byte, such as a line's end, without a method call. */
    static inline Py_ssize_t
    loopcore_find(PyObject *chunk, PyObject *wanted, Py_ssize_t start)
    {
        PyObject *found;
        Py_ssize_t position;
        if (PyBytes_Check(wanted) && PyBytes_GET_SIZE(wanted) == 1) {
            char *from = loopcore_chunk_start(chunk);
            Py_ssize_t size = loopcore_chunk_size(chunk);
            char *at = start < size ? memchr(from + start, PyBytes_AS_STRING(wanted)[0], (size_t)(size - start)) : NULL;
            return at == NULL ? -1 : at - from;
        }
        found = PyObject_CallMethod(chunk, "find", "On", wanted, start);
        if (found == NULL) {
            return -2;
        }
        position = PyLong_AsSsize_t(found);
        Py_DECREF(found);
        return position;
    }
    """
    bytes cut "loopcore_cut" (object chunk, Py_ssize_t start, Py_ssize_t end)
    Py_ssize_t find "loopcore_find" (object chunk, object wanted, Py_ssize_t start) except -2
