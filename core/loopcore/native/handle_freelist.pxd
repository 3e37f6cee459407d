# A free list for handles that have run (docs/adr/0004): an array of references that the compiled kernel owns.
#
# Pooled handles refer to nothing, so the garbage collector does not need to track them, and does not: gc.get_objects()
# never shows pooled handles. Included by one module only.

cdef extern from *:
    """
    #define LOOPCORE_FREE_HANDLES 8192

    static PyObject *loopcore_free_handles[LOOPCORE_FREE_HANDLES];
    static int loopcore_free_handle_count = 0;

    static inline PyObject *
    loopcore_pop_free_handle(void)
    {
        return loopcore_free_handles[--loopcore_free_handle_count];
    }

    static inline void
    loopcore_push_free_handle(PyObject *handle)
    {
        if (loopcore_free_handle_count < LOOPCORE_FREE_HANDLES) {
            PyObject_GC_UnTrack(handle);
            Py_INCREF(handle);
            loopcore_free_handles[loopcore_free_handle_count++] = handle;
        }
    }
    """
    int free_handle_count "loopcore_free_handle_count"
    object pop_free_handle "loopcore_pop_free_handle" ()
    void push_free_handle "loopcore_push_free_handle" (object handle) noexcept
