/* A channel of the load generator: one connected socket over TCP, Unix, UDP or TLS, or two FIFOs, behind the same few
 * calls. */
#ifndef CHANNEL_H
#define CHANNEL_H

#include <sys/types.h>

struct channel {
    int fd;    /* -1: closed */
    int out;   /* the FIFO that is written to, or -1 */
    void *tls; /* the SSL object, or NULL */
};

/* Where every channel leads. */
struct target {
    const char *host, *path, *trust; /* path: a Unix socket; trust: TLS, verified by the authority in this PEM file */
    const char *pipe;                /* two FIFOs: PIPE.in, which the server reads, and PIPE.out */
    int port, udp;
    int spread; /* connect from changing 127.0.0.x, so that ports last */
};

/* Connect and, over TLS, shake hands; both block. Ends the program when refused. */
void channel_open(struct channel *c, const struct target *t);
void channel_close(struct channel *c);

/* Like send(2) and recv(2), never blocking: -1 with EAGAIN when nothing can be done now. */
ssize_t channel_send(struct channel *c, const void *data, size_t len);
ssize_t channel_recv(struct channel *c, void *data, size_t len);

/* Whether bytes have been taken from the socket that channel_recv has not delivered; epoll does not tell of them. */
int channel_pending(const struct channel *c);

/* Say what failed, with errno, and end. */
void die(const char *what);

/* Say why this cannot be had, and end. */
void refuse(const char *reason);

#endif
