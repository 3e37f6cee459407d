# How `__next__` in C ends with a value, which `await` is given: `stop_with`, then a bare `raise StopIteration`, which Cython
# makes a return of NULL and nothing else (docs/adr/0007).
#
# From Python 3.12 on `await` takes the value out of an exception, whoever is awaited. `raise StopIteration(value)` has that
# made by two calls of its class, and given a traceback that nobody sees. So it is made here as its constructor would, and
# None needs none: an iterator that returns NULL has ended with None. Before, an exception is only made if somebody looks
# at it, but for values that would be taken for its arguments, or for itself.

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
            return;  /* what is pending is a MemoryError */
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
