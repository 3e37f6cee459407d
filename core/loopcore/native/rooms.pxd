# Room for bytes whose number is known when they are there: a bytes object that is filled by whoever takes a buffer.

cdef extern from *:
    """
    /* The first `size` bytes of `room`, which nobody else has: the same object, unless it would keep much for little. */
    static inline PyObject *
    loopcore_shortened(PyObject *room, Py_ssize_t size)
    {
        if (PyBytes_GET_SIZE(room) - size > size / 4) {
            return PyBytes_FromStringAndSize(PyBytes_AS_STRING(room), size);
        }
        Py_SET_SIZE((PyVarObject *)room, size);
        PyBytes_AS_STRING(room)[size] = '\\0';
        return Py_NewRef(room);
    }

    static inline PyObject *
    loopcore_make_room(Py_ssize_t size)
    {
        return PyBytes_FromStringAndSize(NULL, size);
    }

    /* A writable memoryview of `room`. It must not outlive it, nor be seen by anybody when `room` is. */
    static inline PyObject *
    loopcore_open_room(PyObject *room)
    {
        return PyMemoryView_FromMemory(PyBytes_AS_STRING(room), PyBytes_GET_SIZE(room), PyBUF_WRITE);
    }
    """
    bytes make_room "loopcore_make_room" (Py_ssize_t size)
    object open_room "loopcore_open_room" (bytes room)
    bytes shortened "loopcore_shortened" (bytes room, Py_ssize_t size)
