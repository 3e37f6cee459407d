/* A stream, shared by plain ones, TLS and the floor's own readers and writers. */
#include "pyfloor.h"

#define MAX_QUEUED 256 /* pieces: a mebibyte that nobody reads comes in dozens */

typedef struct {
    Source source;
    PyObject *protocol;
    Method received, get_buffer, lost;
    PyObject *queue[MAX_QUEUED]; /* bytes that were written and not yet sent; of the first `offset` bytes are gone */
    int count;
    char busy;    /* the protocol has the data: what it writes is sent together afterwards */
    char marked;  /* it was written to from elsewhere, and is sent when the callback has run */
    char blocked; /* the socket took not all: EPOLLOUT is watched */
    ssize_t offset, last;
    struct Tls *tls; /* NULL without */
    PyObject *next;  /* of those that are marked */
} Stream;

Stream *stream_open(int fd, PyObject *factory);
PyObject *stream_receive(Stream *s, int *ended);
void stream_made(Stream *s);
void stream_flush(Stream *s);
void stream_close(Stream *s);
void stream_mark(Stream *s);
Stream *talk_open(int fd, PyObject *talk);
void tls_begin(Stream *s, PyObject *context);
void tls_flush(Stream *s);
int tls_write(Stream *s, PyObject *data);
void tls_free(Stream *s);
int stream_queue(Stream *s, PyObject *bytes); /* takes the reference */
