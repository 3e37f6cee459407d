/* Future and Task: what create_future and create_task promise, and `await` needs.
 *
 * A future is its own iterator: the first `next` hands it to the task, the one after its end returns the result. A task
 * lies in the ready queue itself, and the one task that awaits a future stands in it: waking it is a push. Callbacks
 * of a future that is done are called from the queue, as the interface says; nobody sees a handle of them, so there is
 * none.
 */
#include "pyfloor.h"

#include <stddef.h>
#include <structmember.h>

PyObject *current_tasks;
PyObject *last_task;
static Task all_tasks = {.next = &all_tasks, .before = &all_tasks};
static PyObject *blocking_name, *add_name, *context_names;

void forget_task(void) {
    last_task = NULL;
    if (PyDict_DelItem(current_tasks, (PyObject *)the_loop) < 0) broken();
}

static void future_run(PyObject *self) {
    Future *f = (Future *)self;
    if (last_task) forget_task();
    PyObject *callback = f->callback, *context = f->context, *more = f->more, *result;
    f->callback = f->context = f->more = NULL;
    for (Py_ssize_t i = 0; callback; i++) {
        if (PyContext_Enter(context) < 0) broken();
        if (!(result = PyObject_CallOneArg(callback, self))) broken();
        Py_DECREF(result);
        if (PyContext_Exit(context) < 0) broken();
        Py_DECREF(callback);
        Py_DECREF(context);
        if (!more || i >= PyList_GET_SIZE(more)) break;
        PyObject *pair = PyList_GET_ITEM(more, i);
        callback = Py_NewRef(PyTuple_GET_ITEM(pair, 0));
        context = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
    }
    Py_XDECREF(more);
}

static void future_init(Future *f) {
    memset((char *)f + sizeof(PyObject), 0, sizeof *f - sizeof(PyObject));
    f->head.run = future_run;
}

Future *future_new(void) {
    Future *f = PyObject_GC_New(Future, &FutureType);
    if (!f) return NULL;
    future_init(f);
    PyObject_GC_Track(f);
    return f;
}

/* Takes the references; one of them is NULL. */
void future_finish(Future *f, PyObject *result, PyObject *error) {
    f->done = 1;
    f->result = result;
    f->error = error;
    if (f->waiter) {
        queue_push(f->waiter);
        f->waiter = NULL;
    }
    if (f->callback) {
        f->head.run = future_run;
        queue_push(Py_NewRef((PyObject *)f));
    }
}

PyObject *future_done(PyObject *result) {
    Future *f = future_new();
    if (f) future_finish(f, result, NULL);
    return (PyObject *)f;
}

static int future_traverse(PyObject *self, visitproc visit, void *arg) {
    Future *f = (Future *)self;
    Py_VISIT(f->result);
    Py_VISIT(f->error);
    Py_VISIT(f->waiter);
    Py_VISIT(f->callback);
    Py_VISIT(f->context);
    Py_VISIT(f->more);
    return 0;
}

static int future_clear(PyObject *self) {
    Future *f = (Future *)self;
    Py_CLEAR(f->result);
    Py_CLEAR(f->error);
    Py_CLEAR(f->waiter);
    Py_CLEAR(f->callback);
    Py_CLEAR(f->context);
    Py_CLEAR(f->more);
    return 0;
}

static void future_free(PyObject *self) {
    PyObject_GC_UnTrack(self);
    future_clear(self);
    PyObject_GC_Del(self);
}

static PyObject *future_await(PyObject *self) { return Py_NewRef(self); }

static PyObject *future_next(PyObject *self) {
    Future *f = (Future *)self;
    if (!f->done) {
        f->blocking = 1;
        return Py_NewRef(self);
    }
    if (f->error) PyErr_SetObject((PyObject *)Py_TYPE(f->error), f->error);
    else if (f->result != Py_None) {
        PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, f->result); /* a tuple stays one value */
        if (stop) PyErr_SetObject(PyExc_StopIteration, stop);
        Py_XDECREF(stop);
    }
    return NULL;
}

static PySendResult future_send(PyObject *self, PyObject *value, PyObject **out) {
    (void)value;
    Future *f = (Future *)self;
    if (!f->done || f->error) return (*out = future_next(self)) ? PYGEN_NEXT : PYGEN_ERROR;
    *out = Py_NewRef(f->result);
    return PYGEN_RETURN;
}

static PyObject *future_result(PyObject *self, PyObject *none) {
    (void)none;
    Future *f = (Future *)self;
    if (f->error) PyErr_SetObject((PyObject *)Py_TYPE(f->error), f->error);
    else if (!f->done) PyErr_SetString(PyExc_RuntimeError, "the floor's future is not done");
    return Py_XNewRef(f->result);
}

static PyObject *future_exception(PyObject *self, PyObject *none) {
    (void)none;
    PyObject *error = ((Future *)self)->error;
    return Py_NewRef(error ? error : Py_None);
}

static PyObject *future_set_result(PyObject *self, PyObject *result) {
    future_finish((Future *)self, Py_NewRef(result), NULL);
    Py_RETURN_NONE;
}

static PyObject *future_set_exception(PyObject *self, PyObject *error) {
    PyObject *made = PyType_Check(error) ? PyObject_CallNoArgs(error) : Py_NewRef(error);
    if (!made) return NULL;
    future_finish((Future *)self, NULL, made);
    Py_RETURN_NONE;
}

static PyObject *future_is_done(PyObject *self, PyObject *none) {
    (void)none;
    return PyBool_FromLong(((Future *)self)->done);
}

static PyObject *no(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    Py_RETURN_FALSE;
}

static PyObject *zero(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return PyLong_FromLong(0);
}

static PyObject *get_loop(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return Py_NewRef((PyObject *)the_loop);
}

static PyObject *future_add(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    Future *f = (Future *)self;
    PyObject *given = names && PyTuple_GET_SIZE(names) ? args[nargs] : Py_None;
    PyObject *context = given == Py_None ? PyContext_CopyCurrent() : Py_NewRef(given);
    if (!f->callback) {
        f->callback = Py_NewRef(args[0]);
        f->context = context;
        if (f->done) queue_push(Py_NewRef(self));
        Py_RETURN_NONE;
    }
    if (!f->more && !(f->more = PyList_New(0))) return NULL;
    PyObject *pair = PyTuple_Pack(2, args[0], context);
    Py_DECREF(context);
    if (!pair || PyList_Append(f->more, pair) < 0) return NULL;
    Py_DECREF(pair);
    Py_RETURN_NONE;
}

static PyObject *get_blocking(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((Future *)self)->blocking);
}

static int set_blocking(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    ((Future *)self)->blocking = value == Py_True;
    return 0;
}

/* Wait for what the coroutine has yielded; takes the reference. */
static void task_await(Task *t, PyObject *awaited) {
    if (awaited == Py_None) {
        Py_DECREF(awaited);
        queue_push(Py_NewRef((PyObject *)t));
        return;
    }
    if (Py_IS_TYPE(awaited, &FutureType) || Py_IS_TYPE(awaited, &TaskType)) {
        Future *f = (Future *)awaited;
        if (!f->waiter && !f->callback) {
            f->blocking = 0;
            f->waiter = Py_NewRef((PyObject *)t);
            Py_DECREF(awaited);
            return;
        }
    }
    if (Py_IS_TYPE(awaited, &TalkType)) {
        talk_wait(awaited, Py_NewRef((PyObject *)t));
        Py_DECREF(awaited);
        return;
    }
    /* Not the only one that waits for it, or somebody else's future, such as that of asyncio.gather. */
    PyObject *wakeup = PyObject_GetAttrString((PyObject *)t, "_wakeup");
    PyObject *args[] = {awaited, wakeup, t->run_context};
    if (!wakeup || PyObject_SetAttr(awaited, blocking_name, Py_False) < 0) broken();
    PyObject *done = PyObject_VectorcallMethod(add_name, args, 2, context_names);
    if (!done) broken();
    Py_DECREF(done);
    Py_DECREF(wakeup);
    Py_DECREF(awaited);
}

static PyObject *raised(void) {
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
#endif
}

void task_step(PyObject *self) {
    Task *t = (Task *)self;
    PyObject *out = NULL;
    if (self != last_task) { /* asyncio.current_task() looks there; the entry stays until somebody else runs */
        if (PyDict_SetItem(current_tasks, (PyObject *)the_loop, self) < 0) broken();
        last_task = self;
    }
    if (PyContext_Enter(t->run_context) < 0) broken();
    PySendResult outcome = PyIter_Send(t->coro, Py_None, &out);
    if (PyContext_Exit(t->run_context) < 0) broken();
    if (outcome == PYGEN_NEXT) {
        task_await(t, out);
        return;
    }
    Py_CLEAR(t->coro);
    Py_CLEAR(t->run_context);
    if (outcome == PYGEN_RETURN) {
        future_finish(&t->future, out, NULL);
        return;
    }
    future_finish(&t->future, NULL, raised());
}

static PyObject *task_wakeup(PyObject *self, PyObject *future) {
    (void)future;
    queue_push(Py_NewRef(self));
    Py_RETURN_NONE;
}

/* The context is kept as it is when one is given, else the current one is copied. */
PyObject *task_new(PyObject *coro, PyObject *context) {
    Task *t = PyObject_GC_New(Task, &TaskType);
    if (!t) return NULL;
    future_init(&t->future);
    t->future.head.run = task_step;
    t->coro = Py_NewRef(coro);
    t->run_context = context && context != Py_None ? Py_NewRef(context) : PyContext_CopyCurrent();
    t->log_destroy_pending = 0;
    t->next = all_tasks.next; /* what asyncio.all_tasks() has to find */
    t->before = &all_tasks;
    t->next->before = all_tasks.next = t;
    PyObject_GC_Track(t);
    queue_push(Py_NewRef((PyObject *)t));
    return (PyObject *)t;
}

static int task_traverse(PyObject *self, visitproc visit, void *arg) {
    Task *t = (Task *)self;
    Py_VISIT(t->coro);
    Py_VISIT(t->run_context);
    return future_traverse(self, visit, arg);
}

static int task_clear(PyObject *self) {
    Task *t = (Task *)self;
    Py_CLEAR(t->coro);
    Py_CLEAR(t->run_context);
    return future_clear(self);
}

static void task_free(PyObject *self) {
    Task *t = (Task *)self;
    PyObject_GC_UnTrack(self);
    t->before->next = t->next;
    t->next->before = t->before;
    task_clear(self);
    PyObject_GC_Del(self);
}

static PyAsyncMethods future_async = {.am_await = future_await, .am_send = future_send};

static PyGetSetDef future_getset[] = {
    {"_asyncio_future_blocking", get_blocking, set_blocking, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef future_methods[] = {
    {"result", future_result, METH_NOARGS, NULL},
    {"exception", future_exception, METH_NOARGS, NULL},
    {"set_result", future_set_result, METH_O, NULL},
    {"set_exception", future_set_exception, METH_O, NULL},
    {"done", future_is_done, METH_NOARGS, NULL},
    {"cancelled", no, METH_NOARGS, NULL},
    {"get_loop", get_loop, METH_NOARGS, NULL},
    {"add_done_callback", (PyCFunction)(void (*)(void))future_add, METH_FASTCALL | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject FutureType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyfloor.Future",
    .tp_basicsize = sizeof(Future),
    .tp_dealloc = future_free,
    .tp_traverse = future_traverse,
    .tp_clear = future_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_as_async = &future_async,
    .tp_iter = future_await,
    .tp_iternext = future_next,
    .tp_getset = future_getset,
    .tp_methods = future_methods,
};

static PyMemberDef task_members[] = {
    {"_log_destroy_pending", T_BOOL, offsetof(Task, log_destroy_pending), 0, NULL}, /* asyncio.gather clears it */
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef task_methods[] = {
    {"_wakeup", task_wakeup, METH_O, NULL},
    {"cancelling", zero, METH_NOARGS, NULL},
    {"uncancel", zero, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject TaskType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyfloor.Task",
    .tp_basicsize = sizeof(Task),
    .tp_dealloc = task_free,
    .tp_traverse = task_traverse,
    .tp_clear = task_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_base = &FutureType,
    .tp_members = task_members,
    .tp_methods = task_methods,
};

int tasks_ready(void) {
    PyObject *tasks = PyImport_ImportModule("asyncio.tasks");
    if (!tasks) return -1;
    current_tasks = PyObject_GetAttrString(tasks, "_current_tasks"); /* not there from 3.14 on */
    Py_DECREF(tasks);
    blocking_name = PyUnicode_InternFromString("_asyncio_future_blocking");
    add_name = PyUnicode_InternFromString("add_done_callback");
    context_names = Py_BuildValue("(s)", "context");
    if (!current_tasks || !blocking_name || !add_name || !context_names) return -1;
    return PyType_Ready(&FutureType) < 0 || PyType_Ready(&TaskType) < 0 ? -1 : 0;
}
