/* Datagrams: recvfrom(2) until nothing is left, datagram_received, sendto(2) at once.
 *
 * The address of a datagram is a tuple that is made once for each peer and kept: tuples do not change. What the socket
 * does not take is dropped, as UDP may.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "pyfloor.h"

#define PEERS 256
#define LARGEST 65536

typedef struct {
    struct sockaddr_in name;
    PyObject *address;
} Peer;

typedef struct {
    Source source;
    Method received;
    Peer *from; /* of the datagram that the protocol has now */
    Peer peers[PEERS];
} Datagrams;

static char buffer[LARGEST];

static Peer *find_peer(Datagrams *d, struct sockaddr_in *name) {
    Peer *peer = &d->peers[ntohs(name->sin_port) % PEERS];
    if (peer->address && peer->name.sin_port == name->sin_port && peer->name.sin_addr.s_addr == name->sin_addr.s_addr)
        return peer;
    char host[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &name->sin_addr, host, sizeof host);
    Py_XSETREF(peer->address, Py_BuildValue("(si)", host, ntohs(name->sin_port)));
    if (!peer->address) broken();
    peer->name = *name;
    return peer;
}

static void datagrams_ready(Source *source, uint32_t what) {
    (void)what;
    Datagrams *d = (Datagrams *)source;
    struct sockaddr_in name;
    for (;;) {
        socklen_t length = sizeof name;
        ssize_t n = recvfrom(source->fd, buffer, sizeof buffer, 0, (struct sockaddr *)&name, &length);
        if (n < 0 && errno == ECONNREFUSED) continue;
        if (n < 0) return;
        PyObject *data = PyBytes_FromStringAndSize(buffer, n);
        if (!data) broken();
        d->from = find_peer(d, &name);
        Py_DECREF(call_method(&d->received, data, d->from->address));
        Py_DECREF(data);
    }
}

static PyObject *datagrams_sendto(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    Datagrams *d = (Datagrams *)self;
    if (nargs != 2 || !d->from || args[1] != d->from->address || !PyBytes_CheckExact(args[0])) {
        PyErr_SetString(PyExc_NotImplementedError, "the floor answers the datagram that it has given, with bytes");
        return NULL;
    }
    sendto(d->source.fd, PyBytes_AS_STRING(args[0]), (size_t)PyBytes_GET_SIZE(args[0]), 0,
           (struct sockaddr *)&d->from->name, sizeof d->from->name);
    Py_RETURN_NONE;
}

static PyMethodDef datagrams_methods[] = {
    {"sendto", (PyCFunction)(void (*)(void))datagrams_sendto, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject DatagramsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyfloor.Datagrams",
    .tp_basicsize = sizeof(Datagrams),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = datagrams_methods,
};

/* create_datagram_endpoint(factory, sock=...): (transport, protocol). */
PyObject *serve_datagrams(PyObject *self, PyObject *args, PyObject *names) {
    (void)self;
    PyObject *sock = names ? PyDict_GetItemString(names, "sock") : NULL;
    if (!sock || PyTuple_GET_SIZE(args) != 1) {
        PyErr_SetString(PyExc_NotImplementedError, "the floor serves on a bound socket, given as sock=");
        return NULL;
    }
    if (PyType_Ready(&DatagramsType) < 0) return NULL;
    Datagrams *d = PyObject_New(Datagrams, &DatagramsType);
    PyObject *number = d ? PyObject_CallMethod(sock, "fileno", NULL) : NULL;
    PyObject *protocol = number ? PyObject_CallNoArgs(PyTuple_GET_ITEM(args, 0)) : NULL;
    if (!protocol) return NULL;
    Py_INCREF(sock);
    memset((char *)d + sizeof(PyObject), 0, sizeof *d - sizeof(PyObject));
    d->source.fd = (int)PyLong_AsLong(number);
    d->source.ready = datagrams_ready;
    Py_DECREF(number);
    take_method(&d->received, protocol, "datagram_received");
    PyObject *done = PyObject_CallMethod(protocol, "connection_made", "O", d);
    if (!done) return NULL;
    Py_DECREF(done);
    watch(&d->source, EPOLL_CTL_ADD, EPOLLIN);
    return future_done(Py_BuildValue("(NN)", d, protocol));
}
