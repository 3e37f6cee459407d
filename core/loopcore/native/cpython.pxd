# The compiled kernel's part of CPython's C API. Stable, documented calls only (Python 3.11 and newer).

from cpython.object cimport PyObject

cdef extern from *:
    """
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
    """
    object run_in_context "loopcore_run_in_context" (object context, object callback, tuple args)

cdef extern from "Python.h":
    object copy_context "PyContext_CopyCurrent" ()

    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT

