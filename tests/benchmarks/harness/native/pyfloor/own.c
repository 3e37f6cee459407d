/* Streams of the floor's own: `await reader.readexactly(n)` without asyncio's Python code.
 *
 * Reader, writer and what is awaited are one object, since only one task may read. What is asked for is received where
 * it is handed over, in bytes of that size; when they are full, the task goes on from the event. `drain` never waits.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "stream.h"

typedef struct {
    Stream stream;
    PyObject *waiter, *target;
    Py_ssize_t filled;
    char ended;
} Talk;

static PyObject *incomplete, *drained;

static void talk_ready(Source *source, uint32_t what) {
    Talk *t = (Talk *)source;
    if (what & EPOLLOUT) stream_flush(&t->stream);
    if (source->fd < 0 || !t->waiter || !(what & ~(uint32_t)EPOLLOUT)) return;
    Py_ssize_t left = PyBytes_GET_SIZE(t->target) - t->filled;
    ssize_t n = recv(source->fd, PyBytes_AS_STRING(t->target) + t->filled, (size_t)left, 0);
    if (n < 0 && errno == EAGAIN) return;
    t->ended = n <= 0;
    if (n > 0 && (t->filled += n) < PyBytes_GET_SIZE(t->target)) return;
    PyObject *task = t->waiter;
    t->waiter = NULL;
    ((Runnable *)task)->run(task);
    Py_DECREF(task);
    if (last_task) forget_task();
}

static PyObject *talk_readexactly(PyObject *self, PyObject *size) {
    Talk *t = (Talk *)self;
    Py_ssize_t wanted = PyLong_AsSsize_t(size);
    if (wanted < 0 || !(t->target = PyBytes_FromStringAndSize(NULL, wanted))) return NULL;
    t->filled = 0;
    return Py_NewRef(self);
}

static PyObject *talk_await(PyObject *self) { return Py_NewRef(self); }

static PySendResult talk_send(PyObject *self, PyObject *value, PyObject **out) {
    (void)value;
    Talk *t = (Talk *)self;
    if (t->filled == PyBytes_GET_SIZE(t->target)) {
        *out = t->target;
        t->target = NULL;
        return PYGEN_RETURN;
    }
    if (!t->ended) {
        *out = Py_NewRef(self);
        return PYGEN_NEXT;
    }
    PyObject *error = PyObject_CallFunction(incomplete, "y#n", PyBytes_AS_STRING(t->target), t->filled,
                                            PyBytes_GET_SIZE(t->target));
    if (error) PyErr_SetObject(incomplete, error);
    Py_XDECREF(error);
    return PYGEN_ERROR;
}

static PyObject *talk_next(PyObject *self) {
    PyObject *out = NULL, *stop;
    if (talk_send(self, Py_None, &out) != PYGEN_RETURN) return out;
    if ((stop = PyObject_CallOneArg(PyExc_StopIteration, out))) PyErr_SetObject(PyExc_StopIteration, stop);
    Py_XDECREF(stop);
    Py_DECREF(out);
    return NULL;
}

/* The task that awaits what talk_send has handed to it; takes the reference of the task. */
void talk_wait(PyObject *self, PyObject *task) { ((Talk *)self)->waiter = task; }

static PyObject *talk_drain(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return Py_NewRef(drained);
}

static int talk_clear(PyObject *self) {
    Py_CLEAR(((Talk *)self)->waiter);
    Py_CLEAR(((Talk *)self)->target);
    return StreamType.tp_clear(self);
}

static void talk_free(PyObject *self) {
    talk_clear(self);
    PyObject_Free(self);
}

static PyAsyncMethods talk_async = {.am_await = talk_await, .am_send = talk_send};

static PyMethodDef talk_methods[] = {
    {"readexactly", talk_readexactly, METH_O, NULL},
    {"drain", talk_drain, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject TalkType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyfloor.Talk",
    .tp_basicsize = sizeof(Talk),
    .tp_dealloc = talk_free,
    .tp_clear = talk_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_base = &StreamType,
    .tp_as_async = &talk_async,
    .tp_iter = talk_await,
    .tp_iternext = talk_next,
    .tp_methods = talk_methods,
};

/* Begin a task of talk(reader, writer) on a connected descriptor. */
Stream *talk_open(int fd, PyObject *talk) {
    Talk *t = PyObject_New(Talk, &TalkType);
    if (!t) broken();
    memset((char *)t + sizeof(PyObject), 0, sizeof *t - sizeof(PyObject));
    t->stream.source.fd = fd;
    t->stream.source.ready = talk_ready;
    PyObject *coro = PyObject_CallFunctionObjArgs(talk, (PyObject *)t, (PyObject *)t, NULL);
    PyObject *task = coro ? task_new(coro, NULL) : NULL;
    if (!task) broken();
    Py_DECREF(coro);
    Py_DECREF(task);
    return &t->stream;
}

int talks_ready(void) {
    PyObject *asyncio = PyImport_ImportModule("asyncio");
    if (!asyncio) return -1;
    incomplete = PyObject_GetAttrString(asyncio, "IncompleteReadError");
    Py_DECREF(asyncio);
    drained = future_done(Py_NewRef(Py_None));
    return !incomplete || !drained || PyType_Ready(&TalkType) < 0 ? -1 : 0;
}
