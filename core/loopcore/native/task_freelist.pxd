# A free list for futures and tasks that have ended (docs/adr/0007): at most 4,096, of one class per module.
#
# Making an object of three classes in C takes an allocation and a call for each, destroying it three deallocators and a
# finalizer. So an object is emptied, untracked and kept if its finalizer would have nothing to report, it has no weak
# references and no attributes of the program; the next object reuses it. Subclasses are destroyed as usual,
# and so are objects that the collector has finalized: the interpreter would not call their finalizer again.
#
# Kept objects have no references, refer to nothing, and are not visible anywhere. Without the GIL no object is kept.

from cpython.object cimport PyObject

from loopcore.native.cpython cimport raise_pending  # the C code below needs its definitions

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

    /* Reset an attribute to None, as in a new object. */
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
            Py_SET_REFCNT(self, 1);  /* so that the code below can take and return references */
            is_empty = loopcore_freelist.empty(self);
            Py_SET_REFCNT(self, 0);
            /* dropping the attributes may have ended other objects */
            if (is_empty && loopcore_freelist.count < LOOPCORE_FREELIST_SIZE) {
                loopcore_freelist.objects[loopcore_freelist.count++] = self;
                return;
            }
        }
        /* The dealloc of a subclass has already called the finalizer. Cython's calls it only if `tp_dealloc` is
         * Cython's own function, and that slot now holds this function. */
        if (Py_TYPE(self)->tp_dealloc == loopcore_end && PyObject_CallFinalizerFromDealloc(self) < 0) {
            return;
        }
        loopcore_freelist.dealloc(self);
    }

    /* `empty` returns whether an object has nothing to report at its end; if so, it has untracked and emptied the
     * object. */
    static void
    loopcore_use_freelist(PyObject *reused, loopcore_emptier empty)
    {
    #ifndef Py_GIL_DISABLED
        PyTypeObject *type = (PyTypeObject *)reused;
        if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
            return;  /* its instances count as references to it */
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
