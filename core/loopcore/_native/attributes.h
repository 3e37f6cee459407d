/* A program's own attributes on instances of a compiled class, at no cost for instances without any.
 *
 * `cdef dict __dict__` would do it, but it makes an empty dict with every instance, and makes each cpdef call search
 * that dict for an override. So the slot is declared as a plain pointer, `PyObject *_instance_dict`, and `open_dict`
 * sets its offset as `tp_dictoffset`, the documented way for a type written in C. The interpreter makes the dict with
 * the first attribute; attribute access, binding and lookup order are those of every Python object.
 *
 * One class per module can be opened, before any subclass of it exists: subclasses inherit the offset. Its hot methods
 * should be cdef, because a cpdef call searches for an override wherever there may be a dict. */

#ifndef LOOPCORE_ATTRIBUTES_H
#define LOOPCORE_ATTRIBUTES_H

#include <Python.h>

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
    /* The dealloc of a subclass has already called the finalizer. Cython's calls it only if `tp_dealloc` is
     * Cython's own function, and that slot now holds this function. */
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

#endif
