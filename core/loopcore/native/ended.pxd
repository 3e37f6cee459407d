# Calls of streams that have ended, kept to be begun again (docs/adr/0011): the last one of each kind, of those of a module.
#
# A call that ends is still held by who awaits it, and let go of before the next one begins: then the reference here is the
# only one. It refers to nothing meanwhile. Without the GIL nothing is kept.

cdef extern from *:
    """
    #define LOOPCORE_KINDS 4

    static PyObject *loopcore_ended[LOOPCORE_KINDS];

    static inline int
    loopcore_has_ended(int kind)
    {
        return loopcore_ended[kind] != NULL && Py_REFCNT(loopcore_ended[kind]) == 1;
    }

    static inline PyObject *
    loopcore_take_ended(int kind)
    {
        PyObject *call = loopcore_ended[kind];
        loopcore_ended[kind] = NULL;
        return call;
    }

    /* The one before is let go of: somebody may hold it for long. */
    static inline void
    loopcore_keep_ended(int kind, PyObject *call)
    {
    #ifndef Py_GIL_DISABLED
        Py_XSETREF(loopcore_ended[kind], Py_NewRef(call));
    #endif
    }
    """
    bint has_ended "loopcore_has_ended" (int kind) noexcept
    object take_ended "loopcore_take_ended" (int kind)
    void keep_ended "loopcore_keep_ended" (int kind, object call) noexcept
