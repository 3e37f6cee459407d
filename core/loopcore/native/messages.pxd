# Memory for received messages: the same memory is reused, instead of calling malloc(3) and free(3) each time.
#
# Not without the GIL: whether a message has other references is decided by its reference count.

from cpython.object cimport PyObject

cdef extern from *:
    """
    /* The cached hash, the only state of bytes besides their size and content. */
    #if defined(__GNUC__) || defined(__clang__)
    #define LOOPCORE_FORGET_HASH(item) \\
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \\"-Wdeprecated-declarations\\"") \\
        ((PyBytesObject *)(item))->ob_shash = -1; \\
        _Pragma("GCC diagnostic pop")
    #else
    #define LOOPCORE_FORGET_HASH(item) ((PyBytesObject *)(item))->ob_shash = -1
    #endif

    /* Below 128 KiB, from which on malloc uses mmap(2): the `bytes` handed out must not be mapped (docs/adr/0011). */
    #define LOOPCORE_RECEIVE_LIMIT (120 * 1024)

    /* One object of a message that is gone, without other references: the next message is put into it. A server's
     * messages arrive one at a time, and have similar sizes; malloc(3) and free(3) of a message cost as much as the
     * call that receives it. */
    #define LOOPCORE_SPARE_FROM 64
    #define LOOPCORE_SPARE_TO LOOPCORE_RECEIVE_LIMIT
    static PyObject *loopcore_spare_bytes;

    /* The holder of `item` is about to release it. */
    static inline void
    loopcore_keep_spare(PyObject *item)
    {
    #ifndef Py_GIL_DISABLED
        if (Py_REFCNT(item) == 1 && PyBytes_CheckExact(item) && PyBytes_GET_SIZE(item) >= LOOPCORE_SPARE_FROM
            && PyBytes_GET_SIZE(item) <= LOOPCORE_SPARE_TO) {
            PyObject *before = loopcore_spare_bytes;
            loopcore_spare_bytes = Py_NewRef(item);
            Py_XDECREF(before);
        }
    #endif
    }

    /* PyBytes_FromStringAndSize(NULL, size). Uses the spare object if it is large enough, and less than twice that. */
    static inline PyObject *
    loopcore_make_bytes(Py_ssize_t size)
    {
    #ifndef Py_GIL_DISABLED
        PyObject *spare = loopcore_spare_bytes;
        if (spare != NULL && size <= PyBytes_GET_SIZE(spare) && size > PyBytes_GET_SIZE(spare) / 2) {
            loopcore_spare_bytes = NULL;
            if (size != PyBytes_GET_SIZE(spare)) {
                _PyBytes_Resize(&spare, size);  /* a kept message must not keep a larger allocation */
            } else {
                LOOPCORE_FORGET_HASH(spare);
            }
            return spare;
        }
    #endif
        return PyBytes_FromStringAndSize(NULL, size);
    }

    /* A buffer for the largest receive, made when a large message was released. Messages of 100 KiB arrive whole or
     * in parts, unpredictably: a message that fills more than half of the buffer is handed out in it, whatever its
     * size. The buffer is free while nothing else refers to it; otherwise it is an ordinary message from then on. */
    #define LOOPCORE_ROOMY_FROM (16 * 1024)
    #define LOOPCORE_HALF_ROOM (LOOPCORE_RECEIVE_LIMIT / 2)

    /* The buffer, or NULL. */
    static inline PyObject *
    loopcore_free_room(void)
    {
    #ifndef Py_GIL_DISABLED
        static PyObject *room;
        if (room != NULL && Py_REFCNT(room) > 1) {
            Py_CLEAR(room);
        }
        if (room == NULL && loopcore_spare_bytes != NULL && PyBytes_GET_SIZE(loopcore_spare_bytes) > LOOPCORE_HALF_ROOM) {
            Py_CLEAR(loopcore_spare_bytes);
            room = PyBytes_FromStringAndSize(NULL, LOOPCORE_RECEIVE_LIMIT);
            if (room == NULL) {
                PyErr_Clear();
            }
        }
        return room;
    #else
        return NULL;
    #endif
    }
    """
    # Takes an attribute, which may hold the only reference: the call must not take a temporary one.
    void keep_spare "loopcore_keep_spare" (PyObject *item) noexcept
