# The compiled kernel's part of CPython's C API. Stable, documented calls only (Python 3.11 and newer).

from cpython.object cimport PyObject

cdef extern from *:
    """
    /* A reference to None, which is not counted where None is immortal. */
    static inline PyObject *
    loopcore_none(void)
    {
    #if PY_VERSION_HEX < 0x030C0000
        Py_INCREF(Py_None);
    #endif
        return Py_None;
    }

    /* PyObject_Vectorcall without its check for an exception next to a result; Cython's calls have none either. Callers
     * rely on it: a call without a result has set an exception. */
    static inline PyObject *
    loopcore_call(PyObject *callable, PyObject *const *args, size_t count)
    {
        PyTypeObject *type = Py_TYPE(callable);
        vectorcallfunc call = NULL;
        PyObject *result;
        if (PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL)) {
            call = *(vectorcallfunc *)((char *)callable + type->tp_vectorcall_offset);
        }
        if (call == NULL) {
            return PyObject_Vectorcall(callable, args, count, NULL);
        }
        result = call(callable, args, count, NULL);
        if (result == NULL && !PyErr_Occurred()) {
            PyErr_Format(PyExc_SystemError, "%R returned NULL without setting an exception", callable);
        }
        return result;
    }

    /* Enter the context, call, leave: Context.run without the bound method and without building a new
     * argument tuple. The callee reads its arguments straight out of `args`. */
    static inline PyObject *
    loopcore_run_in_context(PyObject *context, PyObject *callback, PyObject *args)
    {
        PyObject *result;
        if (PyContext_Enter(context) < 0) {
            return NULL;
        }
        result = loopcore_call(callback, ((PyTupleObject *)args)->ob_item, (size_t)PyTuple_GET_SIZE(args));
        if (PyContext_Exit(context) < 0) {
            Py_CLEAR(result);
        }
        return result;
    }

    /* Call with one argument; a bound method is called without its wrapper. */
    static inline PyObject *
    loopcore_call_for(PyObject *callback, PyObject *argument)
    {
        PyObject *args[] = {NULL, argument};
        if (PyMethod_Check(callback)) {
            args[0] = PyMethod_GET_SELF(callback);
            return loopcore_call(PyMethod_GET_FUNCTION(callback), args, 2);
        }
        return loopcore_call(callback, args + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET);
    }

    /* The same for a caller that ignores the result: 0, or -1 with an exception pending. */
    static inline int
    loopcore_call_with(PyObject *callback, PyObject *argument)
    {
        PyObject *result = loopcore_call_for(callback, argument);
        if (result == NULL) {
            return -1;
        }
        Py_DECREF(result);
        return 0;
    }

    /* The result of `get_buffer`, if it has room; otherwise None, with an exception pending. */
    static inline PyObject *
    loopcore_ask_for_buffer(PyObject *get_buffer, PyObject *hint)
    {
        PyObject *buffer = loopcore_call_for(get_buffer, hint);
        Py_ssize_t size = buffer == NULL ? -1 : PyObject_Size(buffer);
        if (size > 0) {
            return buffer;
        }
        if (size == 0) {
            PyErr_SetString(PyExc_RuntimeError, "get_buffer() returned an empty buffer");
        }
        Py_XDECREF(buffer);
        Py_RETURN_NONE;
    }

    /* Look up a method by name and call it with two arguments: 0, or -1 with an exception pending. */
    static inline int
    loopcore_call_method_with(PyObject *object, PyObject *name, PyObject *one, PyObject *other)
    {
        PyObject *args[] = {object, one, other};
        PyObject *result = PyObject_VectorcallMethod(name, args, 3, NULL);
        if (result == NULL) {
            return -1;
        }
        Py_DECREF(result);
        return 0;
    }

    /* Raise the exception that a `noexcept` call has left pending, for code that handles it. */
    static inline PyObject *
    loopcore_raise_pending(void)
    {
        return NULL;
    }
    """
    object raise_pending "loopcore_raise_pending" ()
    object run_in_context "loopcore_run_in_context" (object context, object callback, tuple args)
    int call_with "loopcore_call_with" (object callback, object argument) noexcept
    object ask_for_buffer "loopcore_ask_for_buffer" (object get_buffer, object hint)
    int call_method_with "loopcore_call_method_with" (object object, object name, object one, object other) noexcept

cdef extern from "Python.h":
    # For exactly bytes.
    Py_ssize_t size_of "PyBytes_GET_SIZE" (object item) noexcept
    object copy_context "PyContext_CopyCurrent" ()
    int context_enter "PyContext_Enter" (object context) except -1
    int context_exit "PyContext_Exit" (object context) except -1

    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT

