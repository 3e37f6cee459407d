# Futures and tasks that have ended, kept to be made again (docs/adr/0007): 4,096 at most, of one class of a module.
#
# To make an object of three classes in C takes an allocation and a call for each, to destroy it three deallocators and a
# finalizer. So where its finalizer would have nothing to say, nobody holds a weak reference and a program has set no
# attribute, the object is emptied, taken from the collector and kept; the next one is that. Subclasses go as ever, and so
# does what the collector has finalized: the interpreter would not call its finalizer again.
#
# What is kept has no reference, refers to nothing, and is seen by nobody. Without the GIL nothing is kept.

from cpython.object cimport PyObject

from loopcore.native.cpython cimport raise_pending  # whose C this stands upon

cdef extern from *:
    """
    #define LOOPCORE_REUSED 4096

    typedef int (*loopcore_emptier)(PyObject *);

    static struct {
        PyTypeObject *type;
        destructor dealloc;
        loopcore_emptier empty;
        int count;
        PyObject *objects[LOOPCORE_REUSED];
    } loopcore_reused;

    /* Have an attribute hold nothing, as a new one. */
    #define loopcore_let_go(place) \
        do { \
            PyObject *loopcore_gone = (PyObject *)(place); \
            if (loopcore_gone != Py_None) { \
                (place) = (void *)loopcore_none(); \
                Py_DECREF(loopcore_gone); \
            } \
        } while (0)

    static inline int
    loopcore_is_plain(PyObject *self)
    {
        PyTypeObject *type = Py_TYPE(self);
        return type == loopcore_reused.type && loopcore_reused.count < LOOPCORE_REUSED
            && *(PyObject **)((char *)self + type->tp_weaklistoffset) == NULL
            && *(PyObject **)((char *)self + type->tp_dictoffset) == NULL && !PyObject_GC_IsFinalized(self);
    }

    static void
    loopcore_end(PyObject *self)
    {
        if (loopcore_is_plain(self)) {
            int is_empty;
            Py_SET_REFCNT(self, 1);  /* for what follows to take references, and give them back */
            is_empty = loopcore_reused.empty(self);
            Py_SET_REFCNT(self, 0);
            if (is_empty && loopcore_reused.count < LOOPCORE_REUSED) {  /* what has gone may have ended others */
                loopcore_reused.objects[loopcore_reused.count++] = self;
                return;
            }
        }
        /* Of a subclass, its own dealloc has called the finalizer. Cython's does so for the class it was made for, which
         * it knows by the slot that this function stands in now. */
        if (Py_TYPE(self)->tp_dealloc == loopcore_end && PyObject_CallFinalizerFromDealloc(self) < 0) {
            return;
        }
        loopcore_reused.dealloc(self);
    }

    /* `empty` tells whether an object has nothing to say at its end; then it has taken it from the collector and emptied
     * it. */
    static void
    loopcore_reuse(PyObject *reused, loopcore_emptier empty)
    {
    #ifndef Py_GIL_DISABLED
        PyTypeObject *type = (PyTypeObject *)reused;
        if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
            return;  /* whose instances count as references to it */
        }
        loopcore_reused.type = type;
        loopcore_reused.dealloc = type->tp_dealloc;
        loopcore_reused.empty = empty;
        type->tp_dealloc = loopcore_end;
    #endif
    }

    static inline int
    loopcore_has_reusable(void)
    {
        return loopcore_reused.count > 0;
    }

    static inline PyObject *
    loopcore_take_reusable(void)
    {
        PyObject *object = loopcore_reused.objects[--loopcore_reused.count];
        PyObject_Init(object, loopcore_reused.type);
        PyObject_GC_Track(object);
        return object;
    }
    """
    ctypedef bint (*emptier "loopcore_emptier")(PyObject *) noexcept
    void reuse "loopcore_reuse" (object type, emptier empty) noexcept
    bint has_reusable "loopcore_has_reusable" () noexcept
    object take_reusable "loopcore_take_reusable" ()
