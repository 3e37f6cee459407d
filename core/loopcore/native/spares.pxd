# Handles that have run, kept to be used again (docs/adr/0004): an array of references that the compiled kernel owns.
#
# They refer to nothing while they are here, so the garbage collector need not know of them, and does not: whoever looks
# at its objects finds no handle of nobody's. Included by one module only.

cdef extern from *:
    """
    #define LOOPCORE_SPARES 8192

    static PyObject *loopcore_spares[LOOPCORE_SPARES];
    static int loopcore_spare_count = 0;

    static inline PyObject *
    loopcore_take_spare(void)
    {
        return loopcore_spares[--loopcore_spare_count];
    }

    static inline void
    loopcore_keep_spare(PyObject *handle)
    {
        if (loopcore_spare_count < LOOPCORE_SPARES) {
            PyObject_GC_UnTrack(handle);
            Py_INCREF(handle);
            loopcore_spares[loopcore_spare_count++] = handle;
        }
    }
    """
    int spare_count "loopcore_spare_count"
    object take_spare "loopcore_take_spare" ()
    void keep_spare "loopcore_keep_spare" (object handle) noexcept
