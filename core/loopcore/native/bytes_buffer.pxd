# Buffers for bytes whose number is known only afterwards: a bytes object that is filled through a writable view.

cdef extern from *:
    """
    /* The first `size` bytes of `buffer`, of which the caller has the only reference: the same object, or a copy if
     * that object would waste much memory. */
    static inline PyObject *
    loopcore_truncated(PyObject *buffer, Py_ssize_t size)
    {
        if (PyBytes_GET_SIZE(buffer) - size > size / 4) {
            return PyBytes_FromStringAndSize(PyBytes_AS_STRING(buffer), size);
        }
        Py_SET_SIZE((PyVarObject *)buffer, size);
        PyBytes_AS_STRING(buffer)[size] = '\\0';
        return Py_NewRef(buffer);
    }

    static inline PyObject *
    loopcore_new_buffer(Py_ssize_t size)
    {
        return PyBytes_FromStringAndSize(NULL, size);
    }

    /* A writable memoryview of `buffer`. It must not outlive `buffer`, nor be used after `buffer` is handed out. */
    static inline PyObject *
    loopcore_writable_view(PyObject *buffer)
    {
        return PyMemoryView_FromMemory(PyBytes_AS_STRING(buffer), PyBytes_GET_SIZE(buffer), PyBUF_WRITE);
    }
    """
    bytes new_buffer "loopcore_new_buffer" (Py_ssize_t size)
    object writable_view "loopcore_writable_view" (bytes buffer)
    bytes truncated "loopcore_truncated" (bytes buffer, Py_ssize_t size)
