/* add_reader, and getaddrinfo of a literal address. */
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "pyfloor.h"

#define READERS 64

typedef struct {
    Source source;
    PyObject *handle;
} Reader;

static Reader *readers[READERS];

static void reader_ready(Source *source, uint32_t what) {
    (void)what;
    PyObject *handle = Py_NewRef(((Reader *)source)->handle);
    ((Runnable *)handle)->run(handle);
    Py_DECREF(handle);
}

static void reader_free(PyObject *self) {
    Py_XDECREF(((Reader *)self)->handle);
    PyObject_Free(self);
}

static PyTypeObject ReaderType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyfloor.Reader",
    .tp_basicsize = sizeof(Reader),
    .tp_dealloc = reader_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

/* A callback for each event of a descriptor, called from the event. */
PyObject *add_reader(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    (void)self;
    long fd = nargs > 1 ? PyLong_AsLong(args[0]) : -1;
    for (int i = 0; fd >= 0 && i < READERS && PyType_Ready(&ReaderType) == 0; i++) {
        if (readers[i]) continue;
        Reader *r = readers[i] = PyObject_New(Reader, &ReaderType);
        if (!r || !(r->handle = (PyObject *)handle_new(args + 1, nargs - 1, names, NULL))) return NULL;
        r->source.ready = reader_ready;
        r->source.fd = (int)fd;
        watch(&r->source, EPOLL_CTL_ADD, EPOLLIN);
        Py_RETURN_NONE;
    }
    PyErr_Format(PyExc_NotImplementedError, "the floor takes a descriptor and a callback, %d times", READERS);
    return NULL;
}

PyObject *remove_reader(PyObject *self, PyObject *fd) {
    (void)self;
    for (int i = 0; i < READERS; i++) {
        Reader *r = readers[i];
        if (!r || r->source.fd != PyLong_AsLong(fd)) continue;
        readers[i] = NULL;
        watch(&r->source, EPOLL_CTL_DEL, 0);
        r->source.fd = dup(r->source.fd); /* which is the program's: what is buried is closed */
        bury(&r->source);
        Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}

/* getaddrinfo(literal, port, type=SOCK_STREAM): an awaitable of the list that the interface describes. */
PyObject *resolve(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    (void)self;
    static PyObject *family, *stream, *protocol, *no_name;
    struct in_addr found;
    if (!family) {
        PyObject *socket = PyImport_ImportModule("socket");
        family = socket ? PyObject_GetAttrString(socket, "AF_INET") : NULL;
        stream = socket ? PyObject_GetAttrString(socket, "SOCK_STREAM") : NULL;
        protocol = PyLong_FromLong(IPPROTO_TCP);
        no_name = PyUnicode_FromString("");
        if (!family || !stream || !protocol || !no_name) return NULL;
    }
    const char *text = nargs == 2 && names && PyTuple_GET_SIZE(names) == 1 ? PyUnicode_AsUTF8(args[0]) : NULL;
    if (!text || args[2] != stream || inet_pton(AF_INET, text, &found) != 1) {
        PyErr_SetString(PyExc_NotImplementedError, "the floor takes a literal address, a port and type=SOCK_STREAM");
        return NULL;
    }
    PyObject *address = PyTuple_Pack(2, args[0], args[1]);
    PyObject *entry = address ? PyTuple_Pack(5, family, stream, protocol, no_name, address) : NULL;
    PyObject *list = entry ? PyList_New(1) : NULL;
    if (!list) return NULL;
    Py_DECREF(address);
    PyList_SET_ITEM(list, 0, entry);
    return future_done(list);
}
