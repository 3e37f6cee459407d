/* Streams: accept, receive, call the protocol, send.
 *
 * One recv(2) an event and one send(2) or sendmsg(2) for all that the protocol has written while it had the data, or
 * a task in one step. What the socket does not take is kept and sent on EPOLLOUT. A small message is received into one static buffer and copied
 * into bytes of its size; where the last one was large, bytes are made first and shrunk.
 */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define LARGE 8192
#define BACKLOG 4096

typedef struct {
    Source source;
    PyObject *factory; /* of protocols; of coroutines, if it talks */
    PyObject *context; /* of TLS, or NULL */
    char talks;
} Listener;

static PyTypeObject ListenerType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyfloor.Listener",
    .tp_basicsize = sizeof(Listener),
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

static char buffer[READ_BYTES];
PyObject *marked;
static PyObject *no_hint;

/* Bytes of one receive; NULL without an exception: nothing was there, or `*ended`. */
PyObject *stream_receive(Stream *s, int *ended) {
    ssize_t n;
    PyObject *data = NULL;
    *ended = 0;
    if (s->last < LARGE) {
        n = recv(s->source.fd, buffer, sizeof buffer, 0);
        if (n > 0) data = PyBytes_FromStringAndSize(buffer, n);
    } else {
        if (!(data = PyBytes_FromStringAndSize(NULL, READ_BYTES))) broken();
        n = recv(s->source.fd, PyBytes_AS_STRING(data), READ_BYTES, 0);
        if (n > 0) _PyBytes_Resize(&data, n);
        else Py_CLEAR(data);
    }
    s->last = n;
    if (n == 0 || (n < 0 && errno != EAGAIN)) *ended = 1;
    return data;
}

void stream_close(Stream *s) {
    if (s->source.fd < 0) return;
    if (s->lost.function) Py_DECREF(call_method(&s->lost, Py_None, NULL));
    bury(&s->source);
}

/* Send what is queued, as far as it goes. */
void stream_flush(Stream *s) {
    struct iovec vector[MAX_QUEUED];
    ssize_t sent;
    if (s->count == 1) {
        sent = send(s->source.fd, PyBytes_AS_STRING(s->queue[0]) + s->offset,
                    (size_t)(PyBytes_GET_SIZE(s->queue[0]) - s->offset), MSG_NOSIGNAL);
    } else {
        for (int i = 0; i < s->count; i++) {
            vector[i].iov_base = PyBytes_AS_STRING(s->queue[i]);
            vector[i].iov_len = (size_t)PyBytes_GET_SIZE(s->queue[i]);
        }
        vector[0].iov_base = (char *)vector[0].iov_base + s->offset;
        vector[0].iov_len -= (size_t)s->offset;
        struct msghdr message = {.msg_iov = vector, .msg_iovlen = (size_t)s->count};
        sent = sendmsg(s->source.fd, &message, MSG_NOSIGNAL);
    }
    if (sent < 0 && errno != EAGAIN) {
        stream_close(s);
        return;
    }
    int gone = 0;
    for (sent = sent < 0 ? 0 : sent; gone < s->count; gone++) {
        ssize_t left = PyBytes_GET_SIZE(s->queue[gone]) - s->offset;
        if (sent < left) break;
        sent -= left;
        s->offset = 0;
        Py_DECREF(s->queue[gone]);
    }
    s->offset += sent;
    s->count -= gone;
    if (s->count) memmove(s->queue, s->queue + gone, (size_t)s->count * sizeof *s->queue);
    if ((s->count > 0) == s->blocked) return;
    s->blocked = s->count > 0;
    watch(&s->source, EPOLL_CTL_MOD, s->blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* It has something to send: at the end of the event that it has, or of the callback that runs. */
void stream_mark(Stream *s) {
    if (s->busy || s->blocked || s->marked) return;
    s->marked = 1;
    s->next = marked;
    marked = Py_NewRef((PyObject *)s);
}

void streams_flush(void) {
    while (marked) {
        Stream *s = (Stream *)marked;
        marked = s->next;
        s->marked = 0;
        if (s->source.fd >= 0 && s->tls) tls_flush(s);
        else if (s->source.fd >= 0 && s->count && !s->blocked) stream_flush(s);
        Py_DECREF(s);
    }
}

static void plain_ready(Source *source, uint32_t what) {
    Stream *s = (Stream *)source;
    int ended;
    if (what & EPOLLOUT) stream_flush(s);
    if (source->fd < 0 || !(what & ~(uint32_t)EPOLLOUT)) return;
    PyObject *data = stream_receive(s, &ended);
    if (ended) stream_close(s);
    if (!data) return;
    s->busy = 1;
    Py_DECREF(call_method(&s->received, data, NULL));
    Py_DECREF(data);
    s->busy = 0;
    if (s->count && !s->blocked && source->fd >= 0) stream_flush(s);
}

static void buffered_ready(Source *source, uint32_t what) {
    Stream *s = (Stream *)source;
    Py_buffer view;
    if (what & EPOLLOUT) stream_flush(s);
    if (source->fd < 0 || !(what & ~(uint32_t)EPOLLOUT)) return;
    PyObject *target = call_method(&s->get_buffer, no_hint, NULL);
    if (PyObject_GetBuffer(target, &view, PyBUF_WRITABLE) < 0) broken();
    ssize_t n = recv(source->fd, view.buf, (size_t)view.len, 0);
    PyBuffer_Release(&view);
    Py_DECREF(target);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN) stream_close(s);
        return;
    }
    PyObject *count = PyLong_FromSsize_t(n);
    s->busy = 1;
    Py_DECREF(call_method(&s->received, count, NULL));
    Py_DECREF(count);
    s->busy = 0;
    if (s->count && !s->blocked && source->fd >= 0) stream_flush(s);
}

/* A stream on a connected descriptor, with a protocol of its own that has been told. */
Stream *stream_open(int fd, PyObject *factory) {
    Stream *s = PyObject_New(Stream, &StreamType);
    PyObject *protocol = PyObject_CallNoArgs(factory);
    if (!s || !protocol) broken();
    memset((char *)s + sizeof(PyObject), 0, sizeof *s - sizeof(PyObject));
    s->source.fd = fd;
    s->protocol = protocol;
    if (PyObject_HasAttrString(protocol, "get_buffer")) {
        s->source.ready = buffered_ready;
        take_method(&s->get_buffer, protocol, "get_buffer");
        take_method(&s->received, protocol, "buffer_updated");
    } else {
        s->source.ready = plain_ready;
        take_method(&s->received, protocol, "data_received");
    }
    take_method(&s->lost, protocol, "connection_lost");
    return s;
}

void stream_made(Stream *s) {
    PyObject *done = PyObject_CallMethod(s->protocol, "connection_made", "O", s);
    if (!done) broken();
    Py_DECREF(done);
}

static void listener_ready(Source *source, uint32_t what) {
    (void)what;
    Listener *l = (Listener *)source;
    for (;;) {
        int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        Stream *s = l->talks ? talk_open(fd, l->factory) : stream_open(fd, l->factory);
        if (l->context) tls_begin(s, l->context);
        else if (!l->talks) stream_made(s);
        watch(&s->source, EPOLL_CTL_ADD, EPOLLIN);
    }
}

static PyObject *listen_on(PyObject *args, PyObject *names, char talks) {
    PyObject *sock = names ? PyDict_GetItemString(names, "sock") : NULL, *context = NULL;
    if (!sock || PyTuple_GET_SIZE(args) < 1) { /* host and port, which asyncio.start_server passes on, are None */
        PyErr_SetString(PyExc_NotImplementedError, "the floor serves on a bound socket, given as sock=");
        return NULL;
    }
    context = PyDict_GetItemString(names, "ssl");
    Listener *l = PyObject_New(Listener, &ListenerType);
    PyObject *number = l ? PyObject_CallMethod(sock, "fileno", NULL) : NULL;
    if (!number) return NULL;
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    l->source.fd = (int)PyLong_AsLong(number);
    l->source.ready = listener_ready;
    l->factory = Py_NewRef(PyTuple_GET_ITEM(args, 0));
    l->context = context && context != Py_None ? Py_NewRef(context) : NULL;
    l->talks = talks;
    Py_DECREF(number);
    Py_INCREF(sock);
    if (listen(l->source.fd, BACKLOG) < 0 || fcntl(l->source.fd, F_SETFL, O_NONBLOCK) < 0 ||
        getsockname(l->source.fd, (struct sockaddr *)&name, &length) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    int one = 1; /* Linux hands it on to what is accepted */
    if (name.ss_family != AF_UNIX) setsockopt(l->source.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    watch(&l->source, EPOLL_CTL_ADD, EPOLLIN);
    return future_done((PyObject *)l);
}

/* create_server(factory, sock=...), and the same for Unix sockets; the server lives as long as the process. */
PyObject *serve(PyObject *self, PyObject *args, PyObject *names) {
    (void)self;
    return listen_on(args, names, 0);
}

/* start_server(talk, sock=...): as asyncio.start_server, with readers and writers of the floor's own. */
PyObject *serve_talks(PyObject *self, PyObject *args, PyObject *names) {
    (void)self;
    return listen_on(args, names, 1);
}

/* connect_accepted_socket(factory, sock): (transport, protocol). */
PyObject *adopt(PyObject *self, PyObject *args, PyObject *names) {
    (void)self, (void)names;
    PyObject *factory, *sock;
    if (!PyArg_ParseTuple(args, "OO", &factory, &sock)) return NULL;
    PyObject *number = PyObject_CallMethod(sock, "detach", NULL);
    if (!number) return NULL;
    Stream *s = stream_open((int)PyLong_AsLong(number), factory);
    Py_DECREF(number);
    stream_made(s);
    watch(&s->source, EPOLL_CTL_ADD, EPOLLIN);
    return future_done(Py_BuildValue("(OO)", s, s->protocol));
}

int stream_queue(Stream *s, PyObject *bytes) {
    if (s->count == MAX_QUEUED) stream_flush(s);
    if (s->count == MAX_QUEUED) {
        PyErr_SetString(PyExc_NotImplementedError, "the floor keeps few writes; the peer does not read");
        Py_DECREF(bytes);
        return -1;
    }
    s->queue[s->count++] = bytes;
    return 0;
}

static PyObject *stream_write(PyObject *self, PyObject *data) {
    Stream *s = (Stream *)self;
    if (s->source.fd < 0) Py_RETURN_NONE;
    if (s->tls) return tls_write(s, data) < 0 ? NULL : Py_NewRef(Py_None);
    PyObject *bytes = PyBytes_CheckExact(data) ? Py_NewRef(data) : PyBytes_FromObject(data);
    if (!bytes || stream_queue(s, bytes) < 0) return NULL;
    stream_mark(s);
    Py_RETURN_NONE;
}

static PyObject *stream_is_closing(PyObject *self, PyObject *none) {
    (void)none;
    return PyBool_FromLong(((Stream *)self)->source.fd < 0);
}

static PyObject *stream_close_method(PyObject *self, PyObject *none) {
    (void)none;
    stream_close((Stream *)self);
    Py_RETURN_NONE;
}

static PyObject *stream_info(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    Py_RETURN_NONE;
}

static int stream_clear(PyObject *self) {
    Stream *s = (Stream *)self;
    Py_CLEAR(s->protocol);
    drop_method(&s->received);
    drop_method(&s->get_buffer);
    drop_method(&s->lost);
    tls_free(s);
    while (s->count) Py_DECREF(s->queue[--s->count]);
    return 0;
}

static void stream_free(PyObject *self) {
    stream_clear(self);
    PyObject_Free(self);
}

static PyMethodDef stream_methods[] = {
    {"write", stream_write, METH_O, NULL},
    {"is_closing", stream_is_closing, METH_NOARGS, NULL},
    {"close", stream_close_method, METH_NOARGS, NULL},
    {"get_extra_info", stream_info, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject StreamType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyfloor.Stream",
    .tp_basicsize = sizeof(Stream),
    .tp_dealloc = stream_free,
    .tp_clear = stream_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = stream_methods,
};

int streams_ready(void) {
    no_hint = PyLong_FromLong(-1);
    return !no_hint || PyType_Ready(&StreamType) < 0 || PyType_Ready(&ListenerType) < 0 ? -1 : 0;
}
