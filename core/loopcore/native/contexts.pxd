# Whether the current context still holds the same variables as an earlier copy, for handles that share copies
# (docs/adr/0006).
#
# A context's variables are in a table that is never changed, only replaced, so two contexts with the same table are
# copies of each other. The interpreter does not expose that table; since Python 3.7 it is behind the header and one
# pointer. `know_contexts` verifies this before it is used: the size of a context is the expected one, a copy has the
# same table, a context in which a variable was set has another, and an entered context is the current one. If any of
# this fails, from Python 3.15 on, and without the GIL, every handle gets a copy at once. Only one module knows the
# result: the others compare tables only if that module has given them a context.

from cpython.object cimport PyObject

from loopcore.native.cpython cimport raise_pending  # the C code below needs its definitions

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

    /* Whether a copy of the current context would equal `context`, an earlier copy. */
    static inline int
    loopcore_is_as_current(PyObject *context)
    {
        PyObject *current = PyThreadState_Get()->context;
        return current != NULL && loopcore_table_of(current) == loopcore_table_of(context);
    }

    /* Whether a context that was left can serve as a copy of `shared`: it holds the same variables, and no one but
     * the caller refers to it (a token may, or code that asked for the context). */
    static inline int
    loopcore_is_as_new(PyObject *context, PyObject *shared)
    {
        return Py_REFCNT(context) == 1 && ((loopcore_context *)context)->weak_references == NULL
            && !((loopcore_context *)context)->entered && loopcore_same_table(context, shared);
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
    loopcore_is_as_new(PyObject *context, PyObject *shared)
    {
        return 0;
    }
    #endif

    /* The work of PyContext_Enter and PyContext_Exit up to Python 3.13, without a call, in a known thread; from 3.14 on
     * they notify watchers. They are called if the layout is not known, for other types, and if they would raise. */
    #if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
    static inline void *
    loopcore_current_thread(void)
    {
        return loopcore_contexts_known ? PyThreadState_Get() : NULL;
    }

    static inline int
    loopcore_enter(void *thread, PyObject *context)
    {
        PyThreadState *state = thread;
        loopcore_context *entered = (loopcore_context *)context;
        if (state == NULL || !PyContext_CheckExact(context) || entered->entered) {
            return PyContext_Enter(context);
        }
        entered->outer = state->context;  /* with its reference */
        entered->entered = 1;
        state->context = Py_NewRef(context);
        state->context_ver++;
        return 0;
    }

    static inline int
    loopcore_leave(void *thread, PyObject *context)
    {
        PyThreadState *state = thread;
        loopcore_context *left = (loopcore_context *)context;
        if (state == NULL || state->context != context) {
            return PyContext_Exit(context);
        }
        state->context = left->outer;
        state->context_ver++;
        left->outer = NULL;
        left->entered = 0;
        Py_DECREF(context);
        return 0;
    }
    #else
    static inline void *
    loopcore_current_thread(void)
    {
        return NULL;
    }

    static inline int
    loopcore_enter(void *thread, PyObject *context)
    {
        return PyContext_Enter(context);
    }

    static inline int
    loopcore_leave(void *thread, PyObject *context)
    {
        return PyContext_Exit(context);
    }
    #endif

    static inline Py_ssize_t
    loopcore_references(PyObject *object)
    {
        return (Py_ssize_t)Py_REFCNT(object);
    }

    /* A context for the caller alone, which has a reference to `context`: `context` itself if that is the only one,
     * otherwise a copy. */
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

    /* Enter the context, call without moving the arguments, leave: 0, or -1 with an exception pending. `thread` is the
     * result of `current_thread` in this thread. */
    static inline int
    loopcore_call_in_context(void *thread, PyObject *context, void *callback, void *args)
    {
        PyObject *result;
        if (!PyTuple_Check((PyObject *)args)) {
            PyErr_SetString(PyExc_TypeError, "the arguments of a handle must be a tuple");  /* the program set None */
            return -1;
        }
        if (loopcore_enter(thread, context) < 0) {
            return -1;
        }
        result = loopcore_call(callback, ((PyTupleObject *)args)->ob_item, (size_t)PyTuple_GET_SIZE(args));
        if (loopcore_leave(thread, context) < 0) {
            Py_CLEAR(result);
        }
        if (result == NULL) {
            return -1;
        }
        Py_DECREF(result);
        return 0;
    }

    /* The same with one argument. */
    static inline int
    loopcore_call_for_in_context(void *thread, PyObject *context, PyObject *callback, PyObject *argument)
    {
        int failed;
        if (loopcore_enter(thread, context) < 0) {
            return -1;
        }
        failed = loopcore_call_with(callback, argument);
        return loopcore_leave(thread, context) < 0 ? -1 : failed;
    }
    """
    void *current_thread "loopcore_current_thread" () noexcept
    int enter "loopcore_enter" (void *thread, object context) except -1
    int leave "loopcore_leave" (void *thread, object context) except -1
    int call_in_context "loopcore_call_in_context" (void *thread, object context, void *callback, void *args) noexcept
    int call_for_in_context "loopcore_call_for_in_context" (
        void *thread, object context, object callback, object argument
    ) noexcept
    bint doubt_contexts "loopcore_doubt_contexts" () noexcept
    bint know_contexts "loopcore_know_contexts" () except -1
    bint contexts_are_known "loopcore_contexts_are_known" () noexcept
    bint is_as_current "loopcore_is_as_current" (object context) noexcept
    bint is_as_new "loopcore_is_as_new" (object context, PyObject *shared) noexcept
    bint same_table "loopcore_same_table" (PyObject *one, PyObject *other) noexcept
    Py_ssize_t references "loopcore_references" (PyObject *object) noexcept
    # Takes an attribute, which may hold the only reference: the call must not take a temporary one.
    object own "loopcore_own_context" (PyObject *context)
