# Handles that have run, kept to be used again (docs/adr/0022): an array of references that the compiled kernel owns.
#
# They refer to nothing while they are here, so the garbage collector need not know of them, and does not: whoever looks
# at its objects finds no handle of nobody's, and one that is used again is as young as a new one. Else whatever keeps the
# handle of its own method would wait for a collection of the oldest. Included by one module only.

cdef extern from *:
    """
    #define LOOPCORE_SPARES 1024

    static PyObject *loopcore_spares[LOOPCORE_SPARES];
    static int loopcore_spare_count = 0;

    static inline PyObject *
    loopcore_take_spare(void)
    {
        PyObject *handle = loopcore_spares[--loopcore_spare_count];
        PyObject_GC_Track(handle);
        return handle;
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

    /* Whether there is another reference to an object than the one that the caller holds. Without the GIL nobody can say,
     * so the answer is yes. */
    static inline int
    loopcore_is_known_elsewhere(PyObject *object)
    {
    #ifdef Py_GIL_DISABLED
        return 1;
    #else
        return Py_REFCNT(object) != 1 || *PyObject_GET_WEAKREFS_LISTPTR(object) != NULL;
    #endif
    }
    """
    int spare_count "loopcore_spare_count"
    object take_spare "loopcore_take_spare" ()
    void keep_spare "loopcore_keep_spare" (object handle) noexcept
    bint is_known_elsewhere "loopcore_is_known_elsewhere" (object object) noexcept
