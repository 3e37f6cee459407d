# Attributes of a program's own on instances of a compiled class, which costs those that have none nothing.
#
# `cdef dict __dict__` would do it, but makes an empty dict with every instance, and turns each cpdef call into a look for
# an override in it. So the slot is declared as a plain pointer, `PyObject *_instance_dict`, and `open_dict` tells the
# interpreter where it is: `tp_dictoffset`, the documented way of a type written in C. The dict is made by the
# interpreter with the first attribute; what is read, bound and found first is as with every Python object.
#
# One class of a module can be opened, before any subclass of it exists: those take the offset over. Its hot methods
# should be cdef, since the look for an override takes place wherever there may be a dict.

cdef extern from *:
    """
    static struct {
        Py_ssize_t offset;
        traverseproc traverse;
        inquiry clear;
        destructor dealloc;
    } loopcore_opened;

    static inline PyObject **
    loopcore_dict_of(PyObject *self)
    {
        return (PyObject **)((char *)self + loopcore_opened.offset);
    }

    static int
    loopcore_traverse(PyObject *self, visitproc visit, void *arg)
    {
        Py_VISIT(*loopcore_dict_of(self));
        return loopcore_opened.traverse(self, visit, arg);
    }

    static int
    loopcore_clear(PyObject *self)
    {
        Py_CLEAR(*loopcore_dict_of(self));
        return loopcore_opened.clear(self);
    }

    static void
    loopcore_dealloc(PyObject *self)
    {
        /* Of a subclass, its own dealloc has called the finalizer. Cython's does so for the class it was made for, which
         * it knows by the slot that this function stands in now. */
        if (Py_TYPE(self)->tp_dealloc == loopcore_dealloc && PyObject_CallFinalizerFromDealloc(self) < 0) {
            return;
        }
        PyObject_GC_UnTrack(self);
        Py_CLEAR(*loopcore_dict_of(self));
        loopcore_opened.dealloc(self);
    }

    static PyGetSetDef loopcore_dict_getset = {
        "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL
    };

    static int
    loopcore_open_dict(PyObject *opened, Py_ssize_t offset)
    {
        PyTypeObject *type = (PyTypeObject *)opened;
        PyObject *descriptor = PyDescr_NewGetSet(type, &loopcore_dict_getset);
        int failed = descriptor == NULL || PyDict_SetItemString(type->tp_dict, "__dict__", descriptor) < 0;
        Py_XDECREF(descriptor);
        if (failed) {
            return -1;
        }
        loopcore_opened.offset = offset;
        loopcore_opened.traverse = type->tp_traverse;
        loopcore_opened.clear = type->tp_clear;
        loopcore_opened.dealloc = type->tp_dealloc;
        type->tp_traverse = loopcore_traverse;
        type->tp_clear = loopcore_clear;
        type->tp_dealloc = loopcore_dealloc;
        type->tp_dictoffset = offset;
        PyType_Modified(type);
        return 0;
    }
    """
    int open_dict "loopcore_open_dict" (object type, Py_ssize_t offset) except -1
