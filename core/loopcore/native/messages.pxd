# Memory that messages are received into: made again and again at the same place, instead of by malloc(3) and free(3).
#
# Not without the GIL: that nobody else holds a message is seen by its reference count.

from cpython.object cimport PyObject

cdef extern from *:
    """
    /* What bytes remember of themselves beside their size. */
    #if defined(__GNUC__) || defined(__clang__)
    #define LOOPCORE_FORGET_HASH(item) \\
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \\"-Wdeprecated-declarations\\"") \\
        ((PyBytesObject *)(item))->ob_shash = -1; \\
        _Pragma("GCC diagnostic pop")
    #else
    #define LOOPCORE_FORGET_HASH(item) ((PyBytesObject *)(item))->ob_shash = -1
    #endif

    /* Below 128 KiB, where malloc turns to mmap(2): the `bytes` that are handed out must not be mapped (ADR 0011). */
    #define LOOPCORE_RECEIVE_LIMIT (120 * 1024)

    /* One object that held a message which has gone, and which nobody has a reference to: the next message is put into it.
     * A server's messages come and go one by one, and are of a size; malloc(3) and free(3) of a message cost as much as
     * the call that receives it. */
    #define LOOPCORE_SPARE_FROM 64
    #define LOOPCORE_SPARE_TO LOOPCORE_RECEIVE_LIMIT
    static PyObject *loopcore_spare_bytes;

    /* The holder of `item` is about to let go of it. */
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

    /* As PyBytes_FromStringAndSize(NULL, size). The spare one serves if it is large enough, and not twice that. */
    static inline PyObject *
    loopcore_make_bytes(Py_ssize_t size)
    {
    #ifndef Py_GIL_DISABLED
        PyObject *spare = loopcore_spare_bytes;
        if (spare != NULL && size <= PyBytes_GET_SIZE(spare) && size > PyBytes_GET_SIZE(spare) / 2) {
            loopcore_spare_bytes = NULL;
            if (size != PyBytes_GET_SIZE(spare)) {
                _PyBytes_Resize(&spare, size);  /* whoever keeps it must not keep the room of a larger one */
            } else {
                LOOPCORE_FORGET_HASH(spare);
            }
            return spare;
        }
    #endif
        return PyBytes_FromStringAndSize(NULL, size);
    }

    /* Room for the largest receive, in place of a large message that has come back. Messages of 100 KiB arrive whole or in
     * parts, as it happens: what fills more than half of the room is handed out as it is, whatever its size. The room is
     * free while nobody else has a reference to it; if somebody has, that is an ordinary message from now on. */
    #define LOOPCORE_ROOMY_FROM (16 * 1024)
    #define LOOPCORE_HALF_ROOM (LOOPCORE_RECEIVE_LIMIT / 2)

    /* The room, or NULL. */
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
    # Of an attribute, which may hold the only reference: no temporary one may be taken to call this.
    void keep_spare "loopcore_keep_spare" (PyObject *item) noexcept
