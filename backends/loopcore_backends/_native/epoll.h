/* epoll_wait(2) without a Python frame between the loop and the kernel. epoll.py has the same function in Python.
 *
 * Where the kernel has epoll_pwait2(2) (Linux 5.11) the timeout has the resolution of the kernel's timers; epoll_wait(2)
 * has whole milliseconds, and a timer of 0.3 ms would be 0.7 ms late. It is called by its number, because the C library
 * got it later than the kernel. A wait with timeout 0 keeps the GIL: releasing it costs as much as the call.
 */

#ifndef LOOPCORE_EPOLL_H
#define LOOPCORE_EPOLL_H

#include "loopcore/_native/recording.h"
#include <Python.h>

#ifdef __linux__
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOPCORE_MAX_EVENTS 1024

#if defined(SYS_epoll_pwait2)
#define LOOPCORE_EPOLL_PWAIT2 SYS_epoll_pwait2
#elif defined(__x86_64__) || defined(__aarch64__) || defined(__riscv) || defined(__powerpc64__) || defined(__s390x__)
#define LOOPCORE_EPOLL_PWAIT2 441
#endif

static inline int
loopcore_epoll_once(int fd, struct epoll_event *events, double timeout, int batch)
{
    double ms = timeout < 0.0 ? -1.0 : ceil(timeout * 1e3);
#ifdef LOOPCORE_EPOLL_PWAIT2
    if (timeout > 0.0 && sizeof(long) == 8) {
        double seconds = timeout < 1e9 ? timeout : 1e9, whole = floor(seconds);
        struct timespec left = {(time_t)whole, (long)ceil((seconds - whole) * 1e9)};
        int count;
        if (left.tv_nsec > 999999999) {
            left.tv_sec += 1;
            left.tv_nsec = 0;
        }
        count = (int)syscall(LOOPCORE_EPOLL_PWAIT2, fd, events, batch, &left, NULL, 0);
        if (count >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return count;
        } /* an old kernel, or a container that allows only the calls it knows */
    }
#endif
    return epoll_wait(fd, events, batch, ms < (double)INT_MAX ? (int)ms : INT_MAX);
}

static inline double
loopcore_epoll_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline PyObject *
loopcore_epoll_event(int fd, uint32_t events)
{
    PyObject *number = PyLong_FromLong(fd);
    PyObject *bits = PyLong_FromUnsignedLong(events);
    PyObject *event = number == NULL || bits == NULL ? NULL : PyTuple_Pack(2, number, bits);
    Py_XDECREF(number);
    Py_XDECREF(bits);
    return event;
}

/* A signal's Python handler runs between two calls; if it returns, the rest of the timeout is waited for (PEP 475).
   `gil_steps`: where to note for how long this thread then waited for the GIL; NULL for nowhere. */
static PyObject *
loopcore_epoll_wait(PyObject *epoll, int fd, double timeout, int batch, unsigned long long *gil_steps)
{
    unsigned long long returned = 0;
    struct epoll_event events[LOOPCORE_MAX_EVENTS];
    double deadline = timeout > 0.0 ? loopcore_epoll_now() + timeout : 0.0;
    PyObject *found;
    int count, i;
    batch = batch < 1 || batch > LOOPCORE_MAX_EVENTS ? LOOPCORE_MAX_EVENTS : batch;
    for (;;) {
        if (timeout == 0.0) {
            count = loopcore_epoll_once(fd, events, timeout, batch);
        }
        else {
            Py_BEGIN_ALLOW_THREADS
            count = loopcore_epoll_once(fd, events, timeout, batch);
            if (gil_steps != NULL) {
                returned = loopcore_counter();
            }
            Py_END_ALLOW_THREADS
            if (gil_steps != NULL) {
                *gil_steps = loopcore_counter() - returned;
            }
        }
        if (count >= 0) {
            break;
        }
        if (errno != EINTR) {
            return PyErr_SetFromErrno(PyExc_OSError);
        }
        if (PyErr_CheckSignals() < 0) {
            return NULL;
        }
        if (timeout > 0.0) {
            timeout = deadline - loopcore_epoll_now();
            timeout = timeout < 0.0 ? 0.0 : timeout;
        }
    }
    found = PyList_New(count);
    for (i = 0; found != NULL && i < count; i++) {
        PyObject *event = loopcore_epoll_event(events[i].data.fd, events[i].events);
        if (event == NULL) {
            Py_CLEAR(found);
            break;
        }
        PyList_SET_ITEM(found, i, event);
    }
    return found;
}
#else
static PyObject *
loopcore_epoll_wait(PyObject *epoll, int fd, double timeout, int batch, unsigned long long *gil_steps)
{
    PyErr_SetString(PyExc_NotImplementedError, "epoll(7) belongs to Linux");
    return NULL;
}
#endif

#endif
