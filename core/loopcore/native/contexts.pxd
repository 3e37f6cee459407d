# Whether the current context still holds what a copy of it held, for handles that share copies (docs/adr/0037).
#
# A context's variables are in a table that is never changed, only replaced, so two contexts with the same table are copies
# of each other. The interpreter tells nobody about that table; its place is behind the header and one pointer, from Python
# 3.7 on. `know_contexts` makes sure of it before anybody relies on it: the size of a context is what it was, a copy has the
# same table, a context in which a variable was set has another, and what was entered is the current one. Where any of it is
# otherwise, from Python 3.15 on, and without the GIL, every handle has a copy at once. What is known, one module knows: the
# others ask about tables only where that has left a context for them.

from cpython.object cimport PyObject

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030F0000 && !defined(Py_GIL_DISABLED)
    typedef struct {
        PyObject_HEAD
        PyObject *outer;
        PyObject *table;
        PyObject *weak_references;
        int entered;
    } loopcore_context;

    static int loopcore_contexts_known = 0;

    static inline PyObject *
    loopcore_table_of(PyObject *context)
    {
        return ((loopcore_context *)context)->table;
    }

    static inline int
    loopcore_try_contexts(PyObject *one, PyObject *other, PyObject *variable)
    {
        PyObject *token;
        int told = loopcore_table_of(one) != NULL && loopcore_table_of(one) == loopcore_table_of(other)
            && strcmp(Py_TYPE(loopcore_table_of(one))->tp_name, "hamt") == 0;
        if (PyContext_Enter(one) < 0) {
            return -1;
        }
        told = told && PyThreadState_Get()->context == one;
        token = PyContextVar_Set(variable, variable);
        Py_XDECREF(token);
        if (PyContext_Exit(one) < 0 || token == NULL) {
            return -1;
        }
        return told && loopcore_table_of(one) != loopcore_table_of(other);
    }

    static inline int
    loopcore_know_contexts(void)
    {
        PyObject *one = PyContext_New();
        PyObject *other = one == NULL ? NULL : PyContext_Copy(one);
        PyObject *variable = PyContextVar_New("loopcore", NULL);
        int known = -1;
        if (other != NULL && variable != NULL) {
            known = PyContext_Type.tp_basicsize == (Py_ssize_t)sizeof(loopcore_context)
                ? loopcore_try_contexts(one, other, variable) : 0;
        }
        Py_XDECREF(one);
        Py_XDECREF(other);
        Py_XDECREF(variable);
        if (known >= 0) {
            loopcore_contexts_known = known;
        }
        return known;
    }

    static inline int
    loopcore_doubt_contexts(void)
    {
        return loopcore_contexts_known = 0;
    }

    static inline int
    loopcore_contexts_are_known(void)
    {
        return loopcore_contexts_known;
    }

    static inline int
    loopcore_same_table(PyObject *one, PyObject *other)
    {
        return loopcore_table_of(one) == loopcore_table_of(other);
    }

    /* Whether `context`, a copy of what was current once, would be the same if it were made now. */
    static inline int
    loopcore_is_as_current(PyObject *context)
    {
        PyObject *current = PyThreadState_Get()->context;
        return current != NULL && loopcore_table_of(current) == loopcore_table_of(context);
    }

    /* Whether a context that was left is as good as a copy of `snapshot`: it has the same, and nobody but the caller knows
     * it (a token does, or who has asked for it). */
    static inline int
    loopcore_is_as_new(PyObject *context, PyObject *snapshot)
    {
        return Py_REFCNT(context) == 1 && ((loopcore_context *)context)->weak_references == NULL
            && !((loopcore_context *)context)->entered && loopcore_same_table(context, snapshot);
    }
    #else
    static inline int
    loopcore_doubt_contexts(void)
    {
        return 0;
    }

    static inline int
    loopcore_know_contexts(void)
    {
        return 0;
    }

    static inline int
    loopcore_contexts_are_known(void)
    {
        return 0;
    }

    static inline int
    loopcore_same_table(PyObject *one, PyObject *other)
    {
        return 0;
    }

    static inline int
    loopcore_is_as_current(PyObject *context)
    {
        return 0;
    }

    static inline int
    loopcore_is_as_new(PyObject *context, PyObject *snapshot)
    {
        return 0;
    }
    #endif

    static inline Py_ssize_t
    loopcore_references(PyObject *object)
    {
        return (Py_ssize_t)Py_REFCNT(object);
    }

    /* A context of the caller's own, who holds a reference to `context`: that, if there is no other, or else a copy. */
    static inline PyObject *
    loopcore_own_context(PyObject *context)
    {
    #ifndef Py_GIL_DISABLED
        if (Py_REFCNT(context) == 1) {
            return Py_NewRef(context);
        }
    #endif
        return PyContext_Copy(context);
    }

    /* Enter the context, call with the arguments where they are, leave: 0, or -1 and an exception is pending. */
    static inline int
    loopcore_call_in_context(PyObject *context, PyObject *callback, PyObject *args)
    {
        PyObject *result;
        if (PyContext_Enter(context) < 0) {
            return -1;
        }
        result = PyObject_Vectorcall(callback, ((PyTupleObject *)args)->ob_item, (size_t)PyTuple_GET_SIZE(args), NULL);
        if (PyContext_Exit(context) < 0) {
            Py_CLEAR(result);
        }
        if (result == NULL) {
            return -1;
        }
        Py_DECREF(result);
        return 0;
    }
    """
    int call_in_context "loopcore_call_in_context" (object context, object callback, tuple args) noexcept
    bint doubt_contexts "loopcore_doubt_contexts" () noexcept
    bint know_contexts "loopcore_know_contexts" () except -1
    bint contexts_are_known "loopcore_contexts_are_known" () noexcept
    bint is_as_current "loopcore_is_as_current" (object context) noexcept
    bint is_as_new "loopcore_is_as_new" (object context, object snapshot) noexcept
    bint same_table "loopcore_same_table" (PyObject *one, PyObject *other) noexcept
    Py_ssize_t references "loopcore_references" (PyObject *object) noexcept
    # Of an attribute, which may hold the only reference: no temporary one may be taken to call this.
    object own "loopcore_own_context" (PyObject *context)
