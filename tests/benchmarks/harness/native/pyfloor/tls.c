/* TLS by the standard library's ssl: its object between two memory buffers, driven from C.
 *
 * For what one receive has brought: write it into the one buffer, read from the object until that buffer is empty, give
 * each piece to the protocol, read what the answers have become from the other buffer, send. The methods are those of the
 * object that ssl.SSLObject wraps, so no Python code of ssl runs but in the handshake. A read that would only say that
 * there is no more is left out: it raises an exception each time.
 */
#include <sys/epoll.h>

#include "stream.h"

#define RECORD 16384 /* what a record holds at most (RFC 8446, 5.1): a shorter read has taken all of one */

typedef struct Tls {
    PyObject *object, *incoming;
    Method put, take, read, write;
    char shaken;
} Tls;

static PyObject *want_read, *record_size, *pending_name;

/* Whether the exception is the one that says there is too little; anything else ends the connection. */
static int wants_more(void) {
    int found = PyErr_ExceptionMatches(want_read);
    PyErr_Clear();
    return found;
}

static Py_ssize_t pending(Tls *t) {
    PyObject *number = PyObject_GetAttr(t->incoming, pending_name);
    if (!number) broken();
    Py_ssize_t found = PyLong_AsSsize_t(number);
    Py_DECREF(number);
    return found;
}

static PyObject *try_method(Method *method, PyObject *arg) {
    return arg ? PyObject_CallOneArg(method->function, arg) : PyObject_CallNoArgs(method->function);
}

/* Send what the object has made. */
void tls_flush(Stream *s) {
    PyObject *cipher = call_method(&s->tls->take, NULL, NULL);
    if (!PyBytes_GET_SIZE(cipher)) {
        Py_DECREF(cipher);
        return;
    }
    if (stream_queue(s, cipher) < 0) broken();
    if (!s->blocked) stream_flush(s);
}

/* Give the protocol what there is; 0: the connection has ended. */
static int decrypt(Stream *s) {
    Tls *t = s->tls;
    while (pending(t)) {
        PyObject *data = try_method(&t->read, record_size);
        if (!data && wants_more()) return 1;
        if (!data || !PyBytes_GET_SIZE(data)) {
            Py_XDECREF(data);
            return 0;
        }
        Py_DECREF(call_method(&s->received, data, NULL));
        Py_DECREF(data);
        if (s->source.fd < 0) return 1;
    }
    return 1;
}

static void tls_ready(Source *source, uint32_t what) {
    Stream *s = (Stream *)source;
    Tls *t = s->tls;
    int ended;
    if (what & EPOLLOUT) stream_flush(s);
    if (source->fd < 0 || !(what & ~(uint32_t)EPOLLOUT)) return;
    PyObject *cipher = stream_receive(s, &ended);
    if (ended) stream_close(s);
    if (!cipher) return;
    Py_DECREF(call_method(&t->put, cipher, NULL));
    Py_DECREF(cipher);
    s->busy = 1;
    if (!t->shaken) {
        PyObject *done = PyObject_CallMethod(t->object, "do_handshake", NULL);
        ended = !done && !wants_more();
        if (done) {
            t->shaken = 1;
            stream_made(s);
        }
        Py_XDECREF(done);
    }
    if (t->shaken) ended = !decrypt(s);
    s->busy = 0;
    if (source->fd >= 0) tls_flush(s);
    if (ended) stream_close(s);
}

/* What the protocol writes. */
int tls_write(Stream *s, PyObject *data) {
    PyObject *count = try_method(&s->tls->write, data);
    if (!count) return -1;
    Py_DECREF(count);
    stream_mark(s);
    return 0;
}

void tls_free(Stream *s) {
    Tls *t = s->tls;
    if (!t) return;
    Py_XDECREF(t->object);
    Py_XDECREF(t->incoming);
    drop_method(&t->put);
    drop_method(&t->take);
    drop_method(&t->read);
    drop_method(&t->write);
    PyMem_Free(t);
    s->tls = NULL;
}

/* Make a stream that was opened one of TLS, before its protocol is told. */
void tls_begin(Stream *s, PyObject *context) {
    PyObject *ssl = PyImport_ImportModule("ssl");
    Tls *t = s->tls = PyMem_Calloc(1, sizeof *t);
    if (!ssl || !t) broken();
    if (!want_read) want_read = PyObject_GetAttrString(ssl, "SSLWantReadError");
    if (!record_size) record_size = PyLong_FromLong(RECORD);
    if (!pending_name) pending_name = PyUnicode_InternFromString("pending");
    t->incoming = PyObject_CallMethod(ssl, "MemoryBIO", NULL);
    PyObject *outgoing = PyObject_CallMethod(ssl, "MemoryBIO", NULL);
    Py_DECREF(ssl);
    if (!t->incoming || !outgoing) broken();
    PyObject *wrapped = PyObject_CallMethod(context, "wrap_bio", "OOO", t->incoming, outgoing, Py_True);
    t->object = wrapped ? PyObject_GetAttrString(wrapped, "_sslobj") : NULL;
    if (!t->object) broken();
    take_method(&t->put, t->incoming, "write");
    take_method(&t->take, outgoing, "read");
    take_method(&t->read, t->object, "read");
    take_method(&t->write, t->object, "write");
    Py_DECREF(wrapped);
    Py_DECREF(outgoing);
    s->source.ready = tls_ready;
}
