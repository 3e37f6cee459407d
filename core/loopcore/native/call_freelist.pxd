# A free list for calls of streams that have ended (docs/adr/0011): the last call of each kind, for one module.
#
# A call that ends is still referred to by its awaiter, which drops it before the next call begins: then the reference
# here is the only one. The call refers to nothing meanwhile. Without the GIL no call is kept.

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

    /* The previous call is dropped: the program may keep it for long. */
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
