# How `__next__` in C returns a value to `await`: `stop_with`, then a bare `raise StopIteration`, which Cython compiles
# to a return of NULL and nothing else (docs/adr/0007).
#
# From Python 3.12 on `await` always takes the value out of an exception. `raise StopIteration(value)` would make one by
# two calls of its class, and add a traceback that is never seen. So the exception is made here as its constructor
# would, and None needs none: an iterator that returns NULL has ended with None. Before 3.12, the interpreter makes an
# exception only on demand, except for values that would be taken for its arguments, or for the exception itself.

from cpython.object cimport PyObject

cdef extern from *:
    """
    static inline void
    loopcore_stop_with(PyObject *value)
    {
    #if PY_VERSION_HEX >= 0x030C0000
        PyTypeObject *type = (PyTypeObject *)PyExc_StopIteration;
        PyObject *args;
        PyStopIterationObject *stop;
        if (value == Py_None) {
            return;
        }
        args = PyTuple_Pack(1, value);
        stop = args == NULL ? NULL : (PyStopIterationObject *)type->tp_alloc(type, 0);
        if (stop == NULL) {
            Py_XDECREF(args);
            return;  /* a MemoryError is pending */
        }
        stop->args = args;
        stop->value = Py_NewRef(value);
        PyErr_SetRaisedException((PyObject *)stop);
    #else
        if (value == Py_None) {
            return;
        }
        if (PyTuple_Check(value) || PyExceptionInstance_Check(value)) {
            PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, value);
            if (stop != NULL) {
                PyErr_SetObject(PyExc_StopIteration, stop);
                Py_DECREF(stop);
            }
        }
        else {
            PyErr_SetObject(PyExc_StopIteration, value);
        }
    #endif
    }
    """
    void stop_with "loopcore_stop_with" (object value) noexcept
