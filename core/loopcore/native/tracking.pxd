# Whether the garbage collector knows an object, for handles that it need not look at while they wait (docs/adr/0004).
#
# What is not tracked is never collected by mistake, since what it refers to counts as referred to from outside; a cycle
# through it would only never be found. Without the GIL everything stays tracked.

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

    /* Whether there is another reference to an object than the one that the caller holds. Without the GIL nobody can say,
     * so the answer is yes. */
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
