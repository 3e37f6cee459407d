# Whether the garbage collector tracks an object, for handles that it need not visit while they wait (docs/adr/0004).
#
# An untracked object never causes a wrong collection, because the objects it refers to count as referred to from
# outside; the only loss is that a cycle through it is not found. Without the GIL everything stays tracked.

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define LOOPCORE_UNTRACKS 0
    #else
    #define LOOPCORE_UNTRACKS 1
    #endif

    static inline void
    loopcore_track(PyObject *object)
    {
        if (!PyObject_GC_IsTracked(object)) {
            PyObject_GC_Track(object);
        }
    }

    static inline void
    loopcore_untrack(PyObject *object)
    {
        if (LOOPCORE_UNTRACKS) {
            PyObject_GC_UnTrack(object);
        }
    }

    /* Whether an object has another reference than the caller's. Without the GIL this cannot be known, so the answer is
     * yes. */
    static inline int
    loopcore_has_other_references(PyObject *object)
    {
    #ifdef Py_GIL_DISABLED
        return 1;
    #else
        return Py_REFCNT(object) != 1 || *(PyObject **)((char *)object + Py_TYPE(object)->tp_weaklistoffset) != NULL;
    #endif
    }
    """
    bint UNTRACKS "LOOPCORE_UNTRACKS"
    void track "loopcore_track" (object object) noexcept
    void untrack "loopcore_untrack" (object object) noexcept
    bint has_other_references "loopcore_has_other_references" (object object) noexcept
