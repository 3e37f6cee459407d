# epoll_wait(2) for the compiled epoll backend: one call from the loop to the kernel, no Python frame between.
#
# Where the kernel has epoll_pwait2(2) (Linux 5.11) the timeout has the resolution of the kernel's timers; epoll_wait(2)
# has whole milliseconds, and a timer of 0.3 ms would be 0.7 ms late. It is called by its number, because the C library
# got it later than the kernel. A wait with timeout 0 keeps the GIL: releasing it costs as much as the call.
#
# The events are put into a list that is reused if only the backend has a reference to it, or else into a new one.
#
# A signal's Python handler runs between two calls; if it returns, the rest of the timeout is waited for (PEP 475).

from cpython.object cimport PyObject

# The C used here is defined there: loopcore_empty and loopcore_add.
from loopcore.native.flushes cimport add_borrowed
from loopcore.native.ring cimport empty

cdef extern from *:
    """
    #ifdef __linux__
    #include <errno.h>
    #include <limits.h>
    #include <math.h>
    #include <string.h>
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

    static int loopcore_has_pwait2 = sizeof(long) == 8;

    static inline int
    loopcore_epoll_once(int fd, struct epoll_event *events, double timeout, int batch)
    {
    #ifdef LOOPCORE_EPOLL_PWAIT2
        if (timeout > 0.0 && loopcore_has_pwait2) {
            struct timespec left;
            double whole;
            timeout = timeout < 1e9 ? timeout : 1e9;
            whole = floor(timeout);
            left.tv_sec = (time_t)whole;
            left.tv_nsec = (long)ceil((timeout - whole) * 1e9);
            if (left.tv_nsec > 999999999) {
                left.tv_sec += 1;
                left.tv_nsec = 0;
            }
            int count = (int)syscall(LOOPCORE_EPOLL_PWAIT2, fd, events, batch, &left, NULL, 0);
            if (count >= 0 || (errno != ENOSYS && errno != EPERM)) {
                return count;
            }
            loopcore_has_pwait2 = 0;  /* an old kernel, or a container that allows only the calls it knows */
        }
    #endif
        double ms = timeout < 0.0 ? -1.0 : ceil(timeout * 1e3);
        return epoll_wait(fd, events, batch, ms < (double)INT_MAX ? (int)ms : INT_MAX);
    }

    static inline double
    loopcore_epoll_now(void)
    {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    }

    static PyObject *
    loopcore_make_epoll_event(int fd, uint32_t events)
    {
        PyObject *event = PyTuple_New(2);
        PyObject *number = PyLong_FromLong(fd);
        PyObject *bits = PyLong_FromUnsignedLong(events);
        if (event == NULL || number == NULL || bits == NULL) {
            Py_XDECREF(event);
            Py_XDECREF(number);
            Py_XDECREF(bits);
            return NULL;
        }
        PyTuple_SET_ITEM(event, 0, number);
        PyTuple_SET_ITEM(event, 1, bits);
        return event;
    }

    /* Nearly every event is one of a few: "readable", for a small number. Those are created once in the process. */
    #define LOOPCORE_KEPT_EVENTS 1024
    static PyObject *loopcore_readable[LOOPCORE_KEPT_EVENTS];

    static inline PyObject *
    loopcore_epoll_event(int fd, uint32_t events)
    {
    #ifndef Py_GIL_DISABLED
        if (events == EPOLLIN && (unsigned int)fd < LOOPCORE_KEPT_EVENTS) {
            if (loopcore_readable[fd] == NULL) {
                loopcore_readable[fd] = loopcore_make_epoll_event(fd, events);
            }
            return Py_XNewRef(loopcore_readable[fd]);
        }
    #endif
        return loopcore_make_epoll_event(fd, events);
    }

    /* Return `kept`, emptied, if there is only one reference to it, or else a new list. */
    static inline PyObject *
    loopcore_list_for_events(PyObject *kept)
    {
    #ifndef Py_GIL_DISABLED
        if (Py_REFCNT(kept) == 1) {
            Py_INCREF(kept);  /* first: dropping an item that is not ours may run code that waits again */
            loopcore_empty(kept);
            return kept;
        }
    #endif
        return PyList_New(0);
    }

    static PyObject *
    loopcore_wait_for_events(int fd, double timeout, int batch, PyObject *kept)
    {
        struct epoll_event events[LOOPCORE_MAX_EVENTS];
        double deadline = -1.0;
        int count;
        batch = batch < 1 || batch > LOOPCORE_MAX_EVENTS ? LOOPCORE_MAX_EVENTS : batch;
        for (;;) {
            if (timeout == 0.0) {
                count = loopcore_epoll_once(fd, events, timeout, batch);
            } else {
                if (timeout > 0.0 && deadline < 0.0) {
                    deadline = loopcore_epoll_now() + timeout;
                }
                Py_BEGIN_ALLOW_THREADS
                count = loopcore_epoll_once(fd, events, timeout, batch);
                Py_END_ALLOW_THREADS
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
                if (timeout < 0.0) {
                    timeout = 0.0;
                }
            }
        }
        PyObject *found = loopcore_list_for_events(kept);
        if (found == NULL) {
            return NULL;
        }
        for (int i = 0; i < count; i++) {
            PyObject *event = loopcore_epoll_event(events[i].data.fd, events[i].events);
            if (event == NULL || loopcore_add(found, event) < 0) {
                Py_XDECREF(event);
                Py_DECREF(found);
                return NULL;
            }
            Py_DECREF(event);
        }
        return found;
    }
    #else
    static PyObject *
    loopcore_wait_for_events(int fd, double timeout, int batch, PyObject *kept)
    {
        PyErr_SetString(PyExc_NotImplementedError, "epoll(7) belongs to Linux");
        return NULL;
    }
    #endif
    """
    list wait_for_events "loopcore_wait_for_events" (int fd, double timeout, int batch, PyObject *kept)
