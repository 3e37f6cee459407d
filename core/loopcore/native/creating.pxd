# `create_task` of a compiled loop without a dict for unused keyword arguments (docs/adr/0007).
#
# Cython makes a dict for `**kwargs` in every call. So its method is replaced by another of the same name, which handles
# the ordinary call, a coroutine with or without `name` and `context`, and passes every other call on to Cython's
# method. Signature and docstring are those of Cython's method. Included by one module only.

cdef extern from *:
    """
    typedef PyObject *(*loopcore_keyword_method)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    typedef PyObject *(*loopcore_maker)(PyObject *, PyObject *, PyObject *, PyObject *);

    static struct {
        PyMethodDef definition;
        loopcore_keyword_method behind;
        loopcore_maker make;
        PyObject *name;
        PyObject *context;
    } loopcore_creating;

    static PyObject *
    loopcore_create_task(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
    {
        PyObject *name = Py_None;
        PyObject *context = Py_None;
        Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
        Py_ssize_t at;
        for (at = 0; at < named; at++) {
            PyObject *key = PyTuple_GET_ITEM(names, at);
            if (key == loopcore_creating.name) {
                name = args[count + at];
            }
            else if (key == loopcore_creating.context) {
                context = args[count + at];
            }
            else {
                return loopcore_creating.behind(self, args, count, names);
            }
        }
        return count == 1 ? loopcore_creating.make(self, args[0], name, context)
                          : loopcore_creating.behind(self, args, count, names);
    }

    /* Return whether ordinary calls are handled from now on. They are not if Cython's method has an unexpected form. */
    static int
    loopcore_open_create_task(PyObject *opened, loopcore_maker make)
    {
        PyTypeObject *type = (PyTypeObject *)opened;
        PyObject *behind = PyDict_GetItemString(type->tp_dict, "create_task");
        PyMethodDef *definition;
        PyObject *descriptor;
        int failed;
        if (behind == NULL || !Py_IS_TYPE(behind, &PyMethodDescr_Type)) {
            return 0;
        }
        definition = ((PyMethodDescrObject *)behind)->d_method;
        if (definition->ml_meth == (PyCFunction)(void (*)(void))loopcore_create_task) {
            return 1; /* opened before: it would call itself */
        }
        if (definition->ml_flags != (METH_FASTCALL | METH_KEYWORDS)) {
            return 0;
        }
        loopcore_creating.definition = *definition;
        loopcore_creating.definition.ml_meth = (PyCFunction)(void (*)(void))loopcore_create_task;
        loopcore_creating.behind = (loopcore_keyword_method)(void (*)(void))definition->ml_meth;
        loopcore_creating.make = make;
        loopcore_creating.name = PyUnicode_InternFromString("name");
        loopcore_creating.context = PyUnicode_InternFromString("context");
        if (loopcore_creating.name == NULL || loopcore_creating.context == NULL) {
            return -1;
        }
        descriptor = PyDescr_NewMethod(type, &loopcore_creating.definition);
        failed = descriptor == NULL || PyDict_SetItemString(type->tp_dict, "create_task", descriptor) < 0;
        Py_XDECREF(descriptor);
        if (failed) {
            return -1;
        }
        PyType_Modified(type);
        return 1;
    }
    """
    bint open_create_task "loopcore_open_create_task" (
        object type, object (*make)(object, object, object, object)
    ) except -1
