/* The module, and what the interface calls a loop: run the queue, wait, fire timers.
 *
 * A tick runs what was in the queue when it began. As long as callbacks are ready nothing is polled. What an event has
 * made ready runs right after it, while its bytes are in the cache.
 */
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "pyfloor.h"

Loop *the_loop;
static PyObject *set_running;

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS, NULL
#define WITH_NAMES(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS, NULL

void broken(void) {
    PyErr_Print();
    fprintf(stderr, "pyfloor: an exception where the floor handles none\n");
    _exit(1);
}

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int set_running_loop(PyObject *loop) {
    PyObject *done = PyObject_CallOneArg(set_running, loop);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int run(Loop *loop, Future *until) {
    if (set_running_loop((PyObject *)loop) < 0) return -1;
    loop->stopping = 0;
    loop->running = 1;
    while (!(until && until->done) && !loop->stopping) {
        queue_run(queue_size());
        if (queue_size() || loop->stopping || (until && until->done)) continue;
        poll_wait(timers_next());
        timers_fire();
    }
    loop->running = 0;
    return set_running_loop(Py_None);
}

static PyObject *run_until_complete(PyObject *self, PyObject *what) {
    PyObject *future = PyObject_TypeCheck(what, &FutureType) ? Py_NewRef(what) : task_new(what, NULL);
    if (!future || run((Loop *)self, (Future *)future) < 0) return NULL;
    PyObject *error = ((Future *)future)->error, *result = Py_XNewRef(((Future *)future)->result);
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    else if (!result) PyErr_SetString(PyExc_RuntimeError, "the floor was stopped before the future was done");
    Py_DECREF(future);
    return result;
}

static PyObject *run_forever(PyObject *self, PyObject *none) {
    (void)none;
    if (run((Loop *)self, NULL) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *self, PyObject *none) {
    (void)none;
    ((Loop *)self)->stopping = 1;
    Py_RETURN_NONE;
}

/* The lock of the interpreter guards the queue; only a loop that waits has to be woken. */
static PyObject *call_soon_threadsafe(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    Loop *loop = (Loop *)self;
    PyObject *handle = call_soon(self, args, nargs, names);
    if (handle && loop->waiting) {
        loop->waiting = 0;
        if (eventfd_write(loop->waker, 1) < 0) return PyErr_SetFromErrno(PyExc_OSError);
    }
    return handle;
}

static PyObject *call_at(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    (void)self;
    double when = nargs ? PyFloat_AsDouble(args[0]) : 0.0;
    return when == -1.0 && PyErr_Occurred() ? NULL : timer_start(when, args + 1, nargs - 1, names);
}

static PyObject *call_later(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    (void)self;
    double delay = nargs ? PyFloat_AsDouble(args[0]) : 0.0;
    return delay == -1.0 && PyErr_Occurred() ? NULL : timer_start(now() + delay, args + 1, nargs - 1, names);
}

/* A name is not kept. */
static PyObject *create_task(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    (void)self;
    PyObject *context = NULL;
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "context") == 0) context = args[nargs + i];
    return task_new(args[0], context);
}

static PyObject *create_future(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return (PyObject *)future_new();
}

static PyObject *loop_time(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return PyFloat_FromDouble(now());
}

static PyObject *no(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    Py_RETURN_FALSE;
}

static PyObject *is_running(PyObject *self, PyObject *none) {
    (void)none;
    return PyBool_FromLong(((Loop *)self)->running);
}

static PyObject *ignore(PyObject *self, PyObject *what) {
    (void)self, (void)what;
    Py_RETURN_NONE;
}

static PyObject *done_at_once(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return future_done(Py_NewRef(Py_None));
}

static PyObject *loop_close(PyObject *self, PyObject *none) {
    (void)none;
    Loop *loop = (Loop *)self;
    if (loop->poller >= 0) {
        close(loop->poller);
        close(loop->waker);
        loop->poller = loop->waker = -1;
    }
    Py_RETURN_NONE;
}

static void loop_free(PyObject *self) {
    Py_XDECREF(loop_close(self, NULL));
    PyObject_Free(self);
}

static PyMethodDef loop_methods[] = {
    {"call_soon", FAST(call_soon)},
    {"call_soon_threadsafe", FAST(call_soon_threadsafe)},
    {"call_at", FAST(call_at)},
    {"call_later", FAST(call_later)},
    {"create_task", FAST(create_task)},
    {"create_future", create_future, METH_NOARGS, NULL},
    {"time", loop_time, METH_NOARGS, NULL},
    {"run_until_complete", run_until_complete, METH_O, NULL},
    {"run_forever", run_forever, METH_NOARGS, NULL},
    {"stop", stop, METH_NOARGS, NULL},
    {"close", loop_close, METH_NOARGS, NULL},
    {"get_debug", no, METH_NOARGS, NULL},
    {"is_running", is_running, METH_NOARGS, NULL},
    {"is_closed", no, METH_NOARGS, NULL},
    {"set_debug", ignore, METH_O, NULL},
    {"shutdown_asyncgens", done_at_once, METH_NOARGS, NULL},
    {"shutdown_default_executor", (PyCFunction)done_at_once, METH_VARARGS, NULL},
    {"create_server", WITH_NAMES(serve)},
    {"create_unix_server", WITH_NAMES(serve)},
    {"connect_accepted_socket", WITH_NAMES(adopt)},
    {"create_datagram_endpoint", WITH_NAMES(serve_datagrams)},
    {"getaddrinfo", FAST(resolve)},
    {"add_reader", FAST(add_reader)},
    {"remove_reader", remove_reader, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject LoopType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyfloor.Loop",
    .tp_basicsize = sizeof(Loop),
    .tp_dealloc = loop_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = loop_methods,
};

static PyObject *new_event_loop(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    Loop *loop = PyObject_New(Loop, &LoopType);
    if (!loop) return NULL;
    loop->waiting = loop->stopping = loop->running = 0;
    loop->poller = epoll_create1(EPOLL_CLOEXEC);
    loop->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL}; /* never read: an edge is enough */
    if (loop->poller < 0 || loop->waker < 0 || epoll_ctl(loop->poller, EPOLL_CTL_ADD, loop->waker, &event) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    the_loop = loop;
    return (PyObject *)loop;
}

static PyMethodDef functions[] = {
    {"new_event_loop", new_event_loop, METH_NOARGS, NULL},
    {"start_server", WITH_NAMES(serve_talks)},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "pyfloor", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit_pyfloor(void) {
    PyObject *events = PyImport_ImportModule("asyncio.events");
    if (!events) return NULL;
    set_running = PyObject_GetAttrString(events, "_set_running_loop");
    Py_DECREF(events);
    if (!set_running || tasks_ready() < 0 || streams_ready() < 0 || talks_ready() < 0) return NULL;
    if (PyType_Ready(&HandleType) < 0 || PyType_Ready(&LoopType) < 0) return NULL;
    return PyModule_Create(&module);
}
