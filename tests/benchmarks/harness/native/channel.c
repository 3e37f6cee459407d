/* The channels of the load generator. TLS is there when compiled with -DWITH_TLS and linked with OpenSSL. */
#define _GNU_SOURCE
#include "channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef WITH_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>

static SSL_CTX *context;

static void die_tls(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, ERR_reason_error_string(ERR_get_error()));
    exit(2);
}

static void shake_hands(struct channel *c, const char *trust) {
    SSL *ssl;
    if (!context) {
        context = SSL_CTX_new(TLS_client_method());
        if (!context || SSL_CTX_load_verify_locations(context, trust, NULL) != 1) die_tls(trust);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_read_ahead(context, 1);
    }
    if (!(ssl = SSL_new(context)) || SSL_set_fd(ssl, c->fd) != 1 || SSL_set1_host(ssl, "localhost") != 1)
        die_tls("TLS");
    if (SSL_connect(ssl) != 1) die_tls("handshake");
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    c->tls = ssl;
}

static ssize_t outcome(struct channel *c, int n) {
    if (n > 0) return n;
    switch (SSL_get_error(c->tls, n)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: errno = ECONNRESET; return -1;
    }
}
#endif

void die(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(2);
}

void refuse(const char *reason) {
    fprintf(stderr, "load: %s\n", reason);
    exit(2);
}

static int dial_unix(const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    strncpy(a.sun_path, path, sizeof a.sun_path - 1);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) die("connect");
    return fd;
}

static int dial(const struct target *t) {
    static uint32_t source_host;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)t->port)};
    int one = 1, fd = socket(AF_INET, (t->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    inet_pton(AF_INET, t->host, &a.sin_addr);
    if (t->spread) {
        struct sockaddr_in from = {.sin_family = AF_INET};
        from.sin_addr.s_addr = htonl(0x7f000002u + source_host++ % 200);
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
        if (bind(fd, (struct sockaddr *)&from, sizeof from) < 0) die("bind");
    }
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) die("connect");
    if (!t->udp) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int open_fifo(const char *path, const char *end, int mode) {
    char name[4096];
    if (snprintf(name, sizeof name, "%s.%s", path, end) >= (int)sizeof name) { errno = ENAMETOOLONG; die(path); }
    int fd = open(name, mode | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) die(name);
    return fd;
}

void channel_open(struct channel *c, const struct target *t) {
    c->tls = NULL;
    c->out = t->pipe ? open_fifo(t->pipe, "in", O_WRONLY) : -1;
    c->fd = t->pipe ? open_fifo(t->pipe, "out", O_RDONLY) : t->path ? dial_unix(t->path) : dial(t);
    if (!t->trust) return;
#ifdef WITH_TLS
    shake_hands(c, t->trust);
#else
    refuse("compiled without TLS");
#endif
}

void channel_close(struct channel *c) {
#ifdef WITH_TLS
    if (c->tls) SSL_free(c->tls);
#endif
    c->tls = NULL;
    if (c->fd >= 0) close(c->fd);
    if (c->out >= 0) close(c->out);
    c->fd = c->out = -1;
}

ssize_t channel_send(struct channel *c, const void *data, size_t len) {
#ifdef WITH_TLS
    if (c->tls) return outcome(c, SSL_write(c->tls, data, (int)len));
#endif
    if (c->out >= 0) return write(c->out, data, len);
    return send(c->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t channel_recv(struct channel *c, void *data, size_t len) {
#ifdef WITH_TLS
    if (c->tls) return outcome(c, SSL_read(c->tls, data, (int)len));
#endif
    if (c->out >= 0) return read(c->fd, data, len);
    return recv(c->fd, data, len, MSG_DONTWAIT);
}

int channel_pending(const struct channel *c) {
#ifdef WITH_TLS
    if (c->tls) return SSL_has_pending(c->tls);
#endif
    (void)c;
    return 0;
}
