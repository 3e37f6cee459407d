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
    #define LOOPCORE_FREELIST_SIZE 4096

    typedef int (*loopcore_emptier)(PyObject *);

    static struct {
        PyTypeObject *type;
        destructor dealloc;
        loopcore_emptier empty;
        int count;
        PyObject *objects[LOOPCORE_FREELIST_SIZE];
    } loopcore_freelist;

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
        return type == loopcore_freelist.type && loopcore_freelist.count < LOOPCORE_FREELIST_SIZE
            && *(PyObject **)((char *)self + type->tp_weaklistoffset) == NULL
            && *(PyObject **)((char *)self + type->tp_dictoffset) == NULL && !PyObject_GC_IsFinalized(self);
    }

    static void
    loopcore_end(PyObject *self)
    {
        if (loopcore_is_plain(self)) {
            int is_empty;
            Py_SET_REFCNT(self, 1);  /* for what follows to take references, and give them back */
            is_empty = loopcore_freelist.empty(self);
            Py_SET_REFCNT(self, 0);
            /* what has gone may have ended others */
            if (is_empty && loopcore_freelist.count < LOOPCORE_FREELIST_SIZE) {
                loopcore_freelist.objects[loopcore_freelist.count++] = self;
                return;
            }
        }
        /* Of a subclass, its own dealloc has called the finalizer. Cython's does so for the class it was made for, which
         * it knows by the slot that this function stands in now. */
        if (Py_TYPE(self)->tp_dealloc == loopcore_end && PyObject_CallFinalizerFromDealloc(self) < 0) {
            return;
        }
        loopcore_freelist.dealloc(self);
    }

    /* `empty` tells whether an object has nothing to say at its end; then it has taken it from the collector and emptied
     * it. */
    static void
    loopcore_use_freelist(PyObject *reused, loopcore_emptier empty)
    {
    #ifndef Py_GIL_DISABLED
        PyTypeObject *type = (PyTypeObject *)reused;
        if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
            return;  /* whose instances count as references to it */
        }
        loopcore_freelist.type = type;
        loopcore_freelist.dealloc = type->tp_dealloc;
        loopcore_freelist.empty = empty;
        type->tp_dealloc = loopcore_end;
    #endif
    }

    static inline int
    loopcore_has_free_object(void)
    {
        return loopcore_freelist.count > 0;
    }

    static inline PyObject *
    loopcore_pop_free_object(void)
    {
        PyObject *object = loopcore_freelist.objects[--loopcore_freelist.count];
        PyObject_Init(object, loopcore_freelist.type);
        PyObject_GC_Track(object);
        return object;
    }
    """
    ctypedef bint (*emptier "loopcore_emptier")(PyObject *) noexcept
    void use_freelist "loopcore_use_freelist" (object type, emptier empty) noexcept
    bint has_free_object "loopcore_has_free_object" () noexcept
    object pop_free_object "loopcore_pop_free_object" ()
