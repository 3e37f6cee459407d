/* A stream, shared by plain ones, TLS and the floor's own readers and writers. */
#include "pyfloor.h"

#define MAX_QUEUED 16

typedef struct {
    Source source;
    PyObject *protocol;
    Method received, get_buffer, lost;
    PyObject *queue[MAX_QUEUED]; /* bytes that were written and not yet sent; of the first `offset` bytes are gone */
    int count;
    char busy;    /* the protocol has the data: what it writes is sent together afterwards */
    char blocked; /* the socket took not all: EPOLLOUT is watched */
    ssize_t offset, last;
} Stream;

Stream *stream_open(int fd, PyObject *factory);
PyObject *stream_receive(Stream *s, int *ended);
void stream_made(Stream *s);
void stream_flush(Stream *s);
void stream_close(Stream *s);
int stream_queue(Stream *s, PyObject *bytes); /* takes the reference */
