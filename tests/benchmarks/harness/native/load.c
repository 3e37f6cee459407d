/* Closed-loop load generator: every connection sends one request, waits for the whole answer, sends the next.
 *
 *   load --host 127.0.0.1 --port N | --unix PATH | --pipe PATH   --conns C --size BYTES [--seconds S] [--requests N]
 *        [--warmup SECONDS] [--idle N] [--churn] [--http] [--udp] [--tls AUTHORITY.pem]
 *
 * One thread, level-triggered epoll. After connecting and warming up it prints "ready" and waits for a line on stdin,
 * so that the caller can read the server's CPU time first. It stops sending when the time or the number of requests is
 * used up, waits for the answers that are still owed, and prints one line of JSON. Latencies are in microseconds.
 *
 * An echo's answer must be its request, byte for byte, and no two successive requests have the same bytes. An HTTP
 * answer must have status 200, the length of the first one, and end in 'x'.
 * --churn opens and closes a connection for every request, from changing 127.0.0.x so that ports last.
 * --udp: a connection is a connected socket, a request one datagram with its number in front. One that is not answered
 * within 200 ms is sent again and counted; after twenty times it is an error. Answers that come late are counted too.
 * --pipe: one connection over two FIFOs, with messages that fit into them (pipe(7): 64 KiB).
 * --idle: the active connections warm up first, then it prints "warm" and waits for a line, so that the caller can read
 * the server's memory; then it opens the idle ones, which is done when the server has answered on the last. After the
 * result it waits for another line, has every idle one answer once, and prints a second line of JSON.
 * Without --idle each further line that says "go" loads the server once more. Connections stay open until stdin has
 * ended or said anything else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"

#define BUCKETS 400000 /* half a microsecond each: 200 ms, then everything is in the last one */
#define SHIFTS 251     /* requests start at so many places of the pattern in turn */
#define RESEND_NS 200000000u
#define MAX_TRIES 20
#define HTTP_REQUEST "GET / HTTP/1.1\r\nHost: bench\r\nUser-Agent: loopcore_bench\r\nAccept: */*\r\n\r\n"

struct conn {
    struct channel channel;
    int busy, wants_write, tries;
    size_t sent, got, need;
    uint64_t start, sent_at, number;
    const char *text;
};

static struct target target = {.host = "127.0.0.1"};

static struct {
    int conns, idle, churn, http;
    size_t size;
    double seconds, warmup;
    uint64_t requests;
} opt = {.conns = 1, .size = 64, .seconds = 1.0, .warmup = 0.2};

static int poller;
static struct conn *conns;
static struct channel *idle;
static char *pattern, *sink, *datagram;
static size_t request_len, sink_len = 1 << 18, http_len;
static uint32_t *histogram;
static uint64_t done, errors, wrong, resent, late, issued, total, limit, deadline, busy_count;
static int recording;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void watch(struct conn *c, int op, int wants_write) {
    struct epoll_event e = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0u), .data.ptr = c};
    c->wants_write = wants_write;
    if (epoll_ctl(poller, op, c->channel.fd, &e) < 0) die("epoll_ctl");
}

static void lost(struct conn *c) {
    errors++;
    if (c->busy) busy_count--;
    c->busy = 0;
    channel_close(&c->channel);
}

static void push_datagram(struct conn *c) {
    memcpy(datagram, c->text, opt.size);
    memcpy(datagram, &c->number, sizeof c->number);
    c->sent_at = now_ns();
    c->tries++;
    if (channel_send(&c->channel, datagram, opt.size) < 0 && errno != EAGAIN && errno != EINTR) lost(c);
}

static void push(struct conn *c) {
    if (target.udp) { push_datagram(c); return; }
    while (c->sent < request_len) {
        ssize_t n = channel_send(&c->channel, c->text + c->sent, request_len - c->sent);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
        if (n <= 0) { lost(c); return; }
        c->sent += (size_t)n;
    }
    int more = c->sent < request_len;
    if (more != c->wants_write) watch(c, EPOLL_CTL_MOD, more);
}

/* Start the next request of a connection, unless the time or the number is used up, or the connection is lost. */
static void next(struct conn *c) {
    uint64_t t = now_ns();
    if ((limit && issued >= limit) || (deadline && t >= deadline)) return;
    if (!opt.churn && c->channel.fd < 0) return;
    issued++;
    if (opt.churn) {
        channel_open(&c->channel, &target);
        watch(c, EPOLL_CTL_ADD, 0);
    }
    c->busy = 1;
    busy_count++;
    c->sent = c->got = 0;
    c->tries = 0;
    c->number = ++total;
    c->text = opt.http ? HTTP_REQUEST : pattern + total % SHIFTS;
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
    if (opt.churn) channel_close(&c->channel);
    next(c);
}

/* The first HTTP answer tells the length of all of them: head plus Content-Length. */
static size_t http_need(const char *text, size_t len) {
    const char *body = memmem(text, len, "\r\n\r\n", 4);
    if (!body) return 0;
    for (const char *p = text; p < body; p++)
        if (*p == '\n' && !strncasecmp(p + 1, "content-length:", 15))
            return (size_t)(body + 4 - text) + (size_t)atol(p + 16);
    return 0;
}

/* Whether the bytes in the sink continue the answer that is owed. */
static int is_right(struct conn *c, size_t n) {
    if (!c->busy) return 0;
    if (!opt.http) return c->got + n <= c->need && !memcmp(sink, c->text + c->got, n);
    if (!c->got && (n < 12 || strncmp(sink, "HTTP/1.1 200", 12) != 0)) return 0;
    if (!c->need) c->need = http_len = http_need(sink, n);
    return c->got + n < c->need || (c->got + n == c->need && sink[n - 1] == 'x');
}

static void pull_datagrams(struct conn *c) {
    for (;;) {
        uint64_t number = 0;
        ssize_t n = channel_recv(&c->channel, sink, sink_len);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n < 0) { lost(c); return; }
        if ((size_t)n == opt.size) memcpy(&number, sink, sizeof number);
        if (number && (number < c->number || (number == c->number && !c->busy))) { late++; continue; }
        if (number != c->number || memcmp(sink + sizeof number, c->text + sizeof number, opt.size - sizeof number)) {
            wrong++;
            lost(c);
            return;
        }
        finish(c);
    }
}

static void pull(struct conn *c) {
    if (target.udp) { pull_datagrams(c); return; }
    do {
        ssize_t n = channel_recv(&c->channel, sink, sink_len);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n > 0 && !is_right(c, (size_t)n)) wrong++;
        else if (n > 0) {
            c->got += (size_t)n;
            if (c->got == c->need) finish(c);
            continue;
        }
        lost(c);
        next(c);
        return;
    } while (c->channel.fd >= 0 && channel_pending(&c->channel));
}

/* Datagrams may be dropped; what is not answered in time is sent again. */
static void send_again(void) {
    uint64_t t = now_ns(); /* not before the last datagram was sent: the difference has no sign */
    for (int i = 0; i < opt.conns; i++) {
        struct conn *c = &conns[i];
        if (!c->busy || t - c->sent_at < RESEND_NS) continue;
        if (c->tries >= MAX_TRIES) { lost(c); continue; }
        resent++;
        push(c);
    }
}

/* Send until `seconds` or `requests` are used up, then until every answer has come (or 5 s have passed). */
static double run(double seconds, uint64_t requests) {
    struct epoll_event events[512];
    uint64_t begin = now_ns(), last = begin, looked = begin, t = begin;
    done = issued = 0;
    limit = requests;
    deadline = seconds > 0 ? begin + (uint64_t)(seconds * 1e9) : 0;
    for (int i = 0; i < opt.conns; i++) next(&conns[i]);
    while (busy_count) {
        int n = epoll_wait(poller, events, 512, 100);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        t = now_ns();
        if (n > 0) last = t;
        if (t - last > 5000000000u) { errors += busy_count; break; }
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (c->channel.fd >= 0 && (events[i].events & EPOLLOUT)) push(c);
            if (c->channel.fd >= 0 && (events[i].events & ~(uint32_t)EPOLLOUT)) pull(c);
        }
        if (target.udp && t - looked > RESEND_NS / 4) {
            send_again();
            looked = t;
        }
    }
    return (double)(now_ns() - begin) / 1e9;
}

static double quantile(double share) {
    uint64_t all = 0, seen = 0;
    for (int i = 0; i < BUCKETS; i++) all += histogram[i];
    for (int i = 0; i < BUCKETS; i++) {
        seen += histogram[i];
        if (seen && (double)seen >= share * (double)all) return i * 0.5;
    }
    return 0;
}

/* A request on an idle connection, and its answer within 5 s. Both return 1 when all went well. */
static int ask(struct channel *c) {
    return send(c->fd, pattern, opt.size, MSG_NOSIGNAL) == (ssize_t)opt.size;
}

static int hear(struct channel *c) {
    struct timeval patience = {.tv_sec = 5};
    size_t got = 0;
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (got < opt.size) {
        ssize_t n = recv(c->fd, sink, opt.size - got, 0);
        if (n <= 0 || memcmp(sink, pattern + got, (size_t)n)) return 0;
        got += (size_t)n;
    }
    return 1;
}

static void say_and_wait(const char *word) {
    char line[64];
    printf("%s\n", word);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(1);
}

/* The ends of connections are not measured: nothing is closed before the answer, which is another "go", or none. */
static int is_told_to_go_on(void) {
    char line[64];
    return fgets(line, sizeof line, stdin) && !strcmp(line, "go\n");
}

static void load_and_tell(void) {
    resent = late = 0;
    memset(histogram, 0, BUCKETS * sizeof *histogram);
    double took = run(opt.requests ? 0 : opt.seconds, opt.requests);
    printf("{\"requests\": %llu, \"errors\": %llu, \"wrong\": %llu, \"resent\": %llu, \"late\": %llu, "
           "\"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
           (unsigned long long)done, (unsigned long long)errors, (unsigned long long)wrong, (unsigned long long)resent,
           (unsigned long long)late, took, quantile(0.5), quantile(0.99));
    fflush(stdout);
}

static void warm_up(void) {
    if (opt.warmup > 0) run(opt.warmup, opt.requests ? opt.requests / 10 + 1 : 0);
}

static void open_idle(void) {
    idle = calloc((size_t)opt.idle, sizeof *idle);
    for (int i = 0; i < opt.idle; i++) {
        channel_open(&idle[i], &target);
        if (i % 100 == 99) run(0, (uint64_t)opt.conns); /* no burst: between them the active ones are served */
    }
    struct channel *last = &idle[opt.idle - 1];
    int sent = ask(last), tries = 0;
    do run(0.05, 0); /* the server may be busy accepting for a while */
    while (!errors && recv(last->fd, sink, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN && ++tries < 200);
    if (!sent || !hear(last)) die("the last idle connection");
}

/* All of them at once; returns how many answered rightly. Gives up after the third that did not. */
static int count_answers(void) {
    int answered = 0, failed = 0;
    for (int i = 0; i < opt.idle; i++) ask(&idle[i]);
    for (int i = 0; i < opt.idle && failed < 3; i++)
        if (hear(&idle[i])) answered++;
        else failed++;
    return answered;
}

/* End them by a reset, so that no row begins with thousands of sockets in TIME_WAIT. */
static void reset_idle(void) {
    struct linger at_once = {.l_onoff = 1};
    for (int i = 0; i < opt.idle; i++) {
        setsockopt(idle[i].fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        channel_close(&idle[i]);
    }
}

static void prepare(void) {
    uint32_t state = 2463534242u; /* xorshift: bytes without a period */
    request_len = opt.http ? strlen(HTTP_REQUEST) : opt.size;
    if (target.udp && opt.size < sizeof(uint64_t)) refuse("a datagram has 8 bytes or more");
    if (target.pipe && (opt.conns > 1 || opt.idle || opt.churn || target.udp || target.trust || opt.size > 1 << 16))
        refuse("over pipes there is one connection, with messages of 64 KiB at most");
    pattern = malloc(opt.size + SHIFTS);
    for (size_t i = 0; i < opt.size + SHIFTS; i++) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        pattern[i] = (char)state;
    }
    datagram = malloc(opt.size + 1);
    sink = malloc(sink_len);
    histogram = calloc(BUCKETS, sizeof *histogram);
    conns = calloc((size_t)opt.conns, sizeof *conns);
    poller = epoll_create1(EPOLL_CLOEXEC);
    target.spread = opt.churn;
}

static void parse(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(name, "--churn")) { opt.churn = 1; continue; }
        if (!strcmp(name, "--http")) { opt.http = 1; continue; }
        if (!strcmp(name, "--udp")) { target.udp = 1; continue; }
        i++;
        if (!strcmp(name, "--host")) target.host = value;
        else if (!strcmp(name, "--port")) target.port = atoi(value);
        else if (!strcmp(name, "--unix")) target.path = value;
        else if (!strcmp(name, "--pipe")) target.pipe = value;
        else if (!strcmp(name, "--tls")) target.trust = value;
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
    struct rlimit files;
    parse(argc, argv);
    signal(SIGPIPE, SIG_IGN); /* OpenSSL, and write(2) to a FIFO, have no MSG_NOSIGNAL */
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    prepare();
    for (int i = 0; i < opt.conns; i++) {
        conns[i].channel.fd = conns[i].channel.out = -1;
        if (opt.churn) continue;
        channel_open(&conns[i].channel, &target);
        watch(&conns[i], EPOLL_CTL_ADD, 0);
    }
    if (opt.http && !opt.churn) { /* learn the answer's length from one request */
        int all = opt.conns;
        opt.conns = 1;
        run(0, 1);
        opt.conns = all;
    }
    warm_up();
    if (opt.idle) {
        say_and_wait("warm");
        open_idle();
        warm_up();
    }
    say_and_wait("ready");
    recording = 1;
    do load_and_tell();
    while (!opt.idle && is_told_to_go_on());
    if (opt.idle) {
        say_and_wait("idle");
        printf("{\"answered\": %d}\n", count_answers());
        fflush(stdout);
        is_told_to_go_on();
        reset_idle();
    }
    return 0;
}
