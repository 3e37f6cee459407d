/* The floor: the smallest epoll echo server that is still correct, one thread.
 *
 *   floor [--unix PATH | --udp]
 *
 * One wait, one recv and one send a request. What the socket does not take at once is kept per connection and sent on
 * EPOLLOUT, and nothing more is read from that connection meanwhile. No Python, no objects, no timers:
 * what a loop costs above this is the price of the loop. Over UDP a wake-up is answered datagram by datagram until none
 * is left. It speaks the control protocol of server.py on stdin/stdout: "usage" prints getrusage, "state" the resident
 * set and the number of open files, end of file ends the process.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BUFFER (256 * 1024)

struct conn {
    int fd;
    char *rest;
    size_t rest_len;
};

static int poller, listener, is_unix, is_udp;
static char buffer[BUFFER];
static struct conn control = {.fd = 0}, accepting;

static void die(const char *what) {
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void watch(struct conn *c, int op, unsigned interest) {
    struct epoll_event e = {.events = interest, .data.ptr = c};
    if (epoll_ctl(poller, op, c->fd, &e) < 0) die("epoll_ctl");
}

static void drop(struct conn *c) {
    close(c->fd);
    free(c->rest);
    free(c);
}

static void report_state(void) {
    long pages = 0, files = -3; /* ".", ".." and the directory itself */
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*s %ld", &pages) != 1) die("statm");
    fclose(f);
    DIR *d = opendir("/proc/self/fd");
    if (!d) die("/proc/self/fd");
    while (readdir(d)) files++;
    closedir(d);
    printf("{\"rss_bytes\": %ld, \"files\": %ld}\n", pages * sysconf(_SC_PAGESIZE), files);
    fflush(stdout);
}

static void report(void) {
    struct rusage u;
    char line[64];
    ssize_t n = read(0, line, sizeof line);
    if (n <= 0) exit(0);
    if (line[0] == 's') { report_state(); return; }
    getrusage(RUSAGE_SELF, &u);
    printf("{\"cpu_ns\": %lld, \"peak_kib\": %ld}\n",
           (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000LL + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000LL,
           u.ru_maxrss);
    fflush(stdout);
}

static void welcome(void) {
    for (;;) {
        int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        if (!is_unix) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct conn *c = calloc(1, sizeof *c);
        c->fd = fd;
        watch(c, EPOLL_CTL_ADD, EPOLLIN);
    }
}

static void flush(struct conn *c) {
    ssize_t n = send(c->fd, c->rest, c->rest_len, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) { drop(c); return; }
    c->rest_len -= (size_t)n;
    memmove(c->rest, c->rest + n, c->rest_len);
    if (c->rest_len) return;
    free(c->rest);
    c->rest = NULL;
    watch(c, EPOLL_CTL_MOD, EPOLLIN);
}

static void echo(struct conn *c) {
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0), sent;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) { drop(c); return; }
    sent = send(c->fd, buffer, (size_t)n, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) sent = 0;
    if (sent < 0) { drop(c); return; }
    if (sent == n) return;
    c->rest_len = (size_t)(n - sent);
    c->rest = malloc(c->rest_len);
    memcpy(c->rest, buffer + sent, c->rest_len);
    watch(c, EPOLL_CTL_MOD, EPOLLOUT);
}

static void echo_datagrams(void) {
    struct sockaddr_in from;
    for (;;) {
        socklen_t len = sizeof from;
        ssize_t n = recvfrom(listener, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &len);
        if (n < 0 && errno == ECONNREFUSED) continue;
        if (n < 0) return;
        sendto(listener, buffer, (size_t)n, 0, (struct sockaddr *)&from, len); /* a full queue drops it, as UDP may */
    }
}

int main(int argc, char **argv) {
    struct epoll_event events[512];
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t len = sizeof in;
    struct rlimit files;
    int one = 1;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    is_unix = argc > 2 && !strcmp(argv[1], "--unix");
    is_udp = argc > 1 && !strcmp(argv[1], "--udp");
    listener = socket(is_unix ? AF_UNIX : AF_INET, (is_udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (is_unix) {
        strncpy(un.sun_path, argv[2], sizeof un.sun_path - 1);
        if (bind(listener, (struct sockaddr *)&un, sizeof un) < 0) die("bind");
    } else {
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(listener, (struct sockaddr *)&in, sizeof in) < 0) die("bind");
    }
    if (!is_udp && listen(listener, 4096) < 0) die("listen");
    if (!is_unix) getsockname(listener, (struct sockaddr *)&in, &len);
    poller = epoll_create1(EPOLL_CLOEXEC);
    accepting.fd = listener;
    watch(&accepting, EPOLL_CTL_ADD, EPOLLIN);
    watch(&control, EPOLL_CTL_ADD, EPOLLIN);
    printf("{\"port\": %d}\n", is_unix ? 0 : ntohs(in.sin_port));
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(poller, events, 512, -1);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (c == &control) report();
            else if (c == &accepting && is_udp) echo_datagrams();
            else if (c == &accepting) welcome();
            else if (c->rest) flush(c);
            else echo(c);
        }
    }
}
