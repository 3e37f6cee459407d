# Calls of streams that have ended, kept to be begun again (docs/adr/0011): the last one of each kind, of those of a module.
#
# A call that ends is still held by who awaits it, and let go of before the next one begins: then the reference here is the
# only one. It refers to nothing meanwhile. Without the GIL nothing is kept.

cdef extern from *:
    """
    #define LOOPCORE_KINDS 4

    static PyObject *loopcore_free_calls[LOOPCORE_KINDS];

    static inline int
    loopcore_has_free_call(int kind)
    {
        return loopcore_free_calls[kind] != NULL && Py_REFCNT(loopcore_free_calls[kind]) == 1;
    }

    static inline PyObject *
    loopcore_pop_free_call(int kind)
    {
        PyObject *call = loopcore_free_calls[kind];
        loopcore_free_calls[kind] = NULL;
        return call;
    }

    /* The one before is let go of: somebody may hold it for long. */
    static inline void
    loopcore_push_free_call(int kind, PyObject *call)
    {
    #ifndef Py_GIL_DISABLED
        Py_XSETREF(loopcore_free_calls[kind], Py_NewRef(call));
    #endif
    }
    """
    bint has_free_call "loopcore_has_free_call" (int kind) noexcept
    object pop_free_call "loopcore_pop_free_call" (int kind)
    void push_free_call "loopcore_push_free_call" (int kind, object call) noexcept
