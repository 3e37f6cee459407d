/* Closed-loop load generator: every connection sends one request, waits for the whole answer, sends the next.
 *
 *   load --host 127.0.0.1 --port N | --unix PATH   --conns C --size BYTES [--seconds S] [--requests N]
 *        [--warmup SECONDS] [--idle N] [--churn] [--http]
 *
 * One thread, level-triggered epoll. After connecting and warming up it prints "ready" and waits for a line on stdin,
 * so that the caller can read the server's CPU time first. It stops sending when the time or the number of requests is
 * used up, waits for the answers that are still owed, and prints one line of JSON. Latencies are in microseconds.
 * An echo's answer has as many bytes as its request; an HTTP answer has as many as the first one had.
 * --churn opens and closes a connection for every request, from changing 127.0.0.x so that ports last.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS 400000 /* half a microsecond each: 200 ms, then everything is in the last one */
#define HTTP_REQUEST "GET / HTTP/1.1\r\nHost: bench\r\nUser-Agent: loopbench\r\nAccept: */*\r\n\r\n"

struct conn {
    int fd;
    int busy;
    int wants_write;
    size_t sent, got, need;
    uint64_t start;
};

static struct {
    const char *host, *path;
    int port, conns, idle, churn, http;
    size_t size;
    double seconds, warmup;
    uint64_t requests;
} opt = {.host = "127.0.0.1", .conns = 1, .size = 64, .seconds = 1.0, .warmup = 0.2};

static int poller;
static struct conn *conns;
static char *request, *sink;
static size_t request_len, sink_len = 1 << 18, http_len;
static uint32_t *histogram;
static uint64_t done, errors, issued, limit, deadline, busy_count;
static int recording, source_host;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(2);
}

static int dial(void) {
    int fd, one = 1;
    if (opt.path) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        strncpy(a.sun_path, opt.path, sizeof a.sun_path - 1);
        if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0) die("socket");
        if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) die("connect");
        return fd;
    }
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
    inet_pton(AF_INET, opt.host, &a.sin_addr);
    if ((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0) die("socket");
    if (opt.churn) {
        struct sockaddr_in from = {.sin_family = AF_INET};
        from.sin_addr.s_addr = htonl(0x7f000002u + (uint32_t)(source_host++ % 200));
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
        if (bind(fd, (struct sockaddr *)&from, sizeof from) < 0) die("bind");
    }
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void watch(struct conn *c, int op, int wants_write) {
    struct epoll_event e = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0u), .data.ptr = c};
    c->wants_write = wants_write;
    if (epoll_ctl(poller, op, c->fd, &e) < 0) die("epoll_ctl");
}

static void lost(struct conn *c) {
    errors++;
    busy_count--;
    c->busy = 0;
    close(c->fd);
    c->fd = -1;
}

static void push(struct conn *c) {
    while (c->sent < request_len) {
        ssize_t n = send(c->fd, request + c->sent, request_len - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
        if (n < 0) { lost(c); return; }
        c->sent += (size_t)n;
    }
    int more = c->sent < request_len;
    if (more != c->wants_write) watch(c, EPOLL_CTL_MOD, more);
}

/* Start the next request of a connection, unless the time or the number is used up. */
static void next(struct conn *c) {
    uint64_t t = now_ns();
    if ((limit && issued >= limit) || (deadline && t >= deadline)) return;
    issued++;
    if (opt.churn) {
        c->fd = dial();
        watch(c, EPOLL_CTL_ADD, 0);
    }
    c->busy = 1;
    busy_count++;
    c->sent = c->got = 0;
    c->need = opt.http ? http_len : opt.size;
    c->start = t;
    push(c);
}

static void finish(struct conn *c) {
    uint64_t took = (now_ns() - c->start) / 500;
    if (recording) histogram[took < BUCKETS ? took : BUCKETS - 1]++;
    done++;
    busy_count--;
    c->busy = 0;
    if (opt.churn) {
        close(c->fd);
        c->fd = -1;
    }
    next(c);
}

/* The first HTTP answer tells the length of all of them: head plus Content-Length. */
static size_t http_need(const char *text, size_t len) {
    const char *body = memmem(text, len, "\r\n\r\n", 4);
    if (!body) return 0;
    if (strncmp(text, "HTTP/1.1 200", 12) != 0) { errors++; return 0; }
    for (const char *p = text; p < body; p++)
        if (*p == '\n' && !strncasecmp(p + 1, "content-length:", 15))
            return (size_t)(body + 4 - text) + (size_t)atol(p + 16);
    return 0;
}

static void pull(struct conn *c) {
    ssize_t n = recv(c->fd, sink, sink_len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        if (c->busy) { lost(c); next(c); return; }
        close(c->fd);
        c->fd = -1;
        return;
    }
    if (opt.http && !c->need) c->need = http_len = http_need(sink, (size_t)n);
    c->got += (size_t)n;
    if (c->got > c->need) errors++;
    if (c->busy && c->got >= c->need) finish(c);
}

/* Send until `seconds` or `requests` are used up, then until every answer has come (or 5 s have passed). */
static double run(double seconds, uint64_t requests) {
    struct epoll_event events[512];
    uint64_t begin = now_ns(), end;
    done = issued = 0;
    limit = requests;
    deadline = seconds > 0 ? begin + (uint64_t)(seconds * 1e9) : 0;
    for (int i = 0; i < opt.conns; i++)
        if (conns[i].fd >= 0 || opt.churn) next(&conns[i]);
    uint64_t last = now_ns();
    while (busy_count) {
        int n = epoll_wait(poller, events, 512, 100);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        if (n > 0) last = now_ns();
        if (now_ns() - last > 5000000000u) { errors += busy_count; break; }
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (c->fd >= 0 && (events[i].events & EPOLLOUT)) push(c);
            if (c->fd >= 0 && (events[i].events & ~(uint32_t)EPOLLOUT)) pull(c);
        }
    }
    end = now_ns();
    return (double)(end - begin) / 1e9;
}

static double quantile(double share) {
    uint64_t total = 0, seen = 0;
    for (int i = 0; i < BUCKETS; i++) total += histogram[i];
    for (int i = 0; i < BUCKETS; i++) {
        seen += histogram[i];
        if (seen && (double)seen >= share * (double)total) return i * 0.5;
    }
    return 0;
}

static void parse(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(name, "--churn")) { opt.churn = 1; continue; }
        if (!strcmp(name, "--http")) { opt.http = 1; continue; }
        i++;
        if (!strcmp(name, "--host")) opt.host = value;
        else if (!strcmp(name, "--port")) opt.port = atoi(value);
        else if (!strcmp(name, "--unix")) opt.path = value;
        else if (!strcmp(name, "--conns")) opt.conns = atoi(value);
        else if (!strcmp(name, "--idle")) opt.idle = atoi(value);
        else if (!strcmp(name, "--size")) opt.size = (size_t)atol(value);
        else if (!strcmp(name, "--seconds")) opt.seconds = atof(value);
        else if (!strcmp(name, "--warmup")) opt.warmup = atof(value);
        else if (!strcmp(name, "--requests")) opt.requests = strtoull(value, NULL, 10);
        else { fprintf(stderr, "load: unknown option %s\n", name); exit(2); }
    }
}

int main(int argc, char **argv) {
    char line[64];
    struct rlimit files;
    parse(argc, argv);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    request_len = opt.http ? strlen(HTTP_REQUEST) : opt.size;
    request = malloc(request_len + 1);
    memset(request, 'x', request_len);
    if (opt.http) memcpy(request, HTTP_REQUEST, request_len);
    sink = malloc(sink_len);
    histogram = calloc(BUCKETS, sizeof *histogram);
    conns = calloc((size_t)opt.conns, sizeof *conns);
    poller = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < opt.idle; i++) dial();
    for (int i = 0; i < opt.conns; i++) {
        conns[i].fd = -1;
        if (opt.churn) continue;
        conns[i].fd = dial();
        watch(&conns[i], EPOLL_CTL_ADD, 0);
    }
    if (opt.http && !opt.churn) { /* learn the answer's length from one request */
        int all = opt.conns;
        opt.conns = 1;
        run(0, 1);
        opt.conns = all;
    }
    if (opt.warmup > 0) run(opt.warmup, opt.requests ? opt.requests / 10 + 1 : 0);
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    recording = 1;
    double took = run(opt.requests ? 0 : opt.seconds, opt.requests);
    printf("{\"requests\": %llu, \"errors\": %llu, \"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
           (unsigned long long)done, (unsigned long long)errors, took, quantile(0.5), quantile(0.99));
    fflush(stdout);
    return 0;
}
