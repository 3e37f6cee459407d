/* The wait, and calls of a protocol's methods.
 *
 * One epoll_wait(2) a tick, in which the interpreter's lock is given up; events are dispatched from its array. What is
 * closed meanwhile is let go after the array, so that no event finds freed memory.
 */
#include <errno.h>
#include <math.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "pyfloor.h"

#define EVENTS 512

static struct epoll_event events[EVENTS];
static Source *graves;

void watch(Source *source, int op, uint32_t interest) {
    struct epoll_event event = {.events = interest, .data.ptr = source};
    if (epoll_ctl(the_loop->poller, op, source->fd, &event) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        broken();
    }
}

void bury(Source *source) {
    close(source->fd);
    source->fd = -1;
    source->next = graves;
    graves = source;
}

/* Until the first timer is due, which `when` says on the clock of the loop; a negative number: without limit. */
void poll_wait(double when) {
    int count, timeout = -1;
    if (when >= 0) {
        double left = ceil((when - now()) * 1e3); /* whole milliseconds, rounded up: never early */
        timeout = left > 0 ? (int)fmin(left, 1e6) : 0;
    }
    the_loop->waiting = 1;
    Py_BEGIN_ALLOW_THREADS;
    count = epoll_wait(the_loop->poller, events, EVENTS, timeout);
    Py_END_ALLOW_THREADS;
    the_loop->waiting = 0;
    if (last_task && count > 0) forget_task();
    for (int i = 0; i < count; i++) {
        Source *source = events[i].data.ptr;
        if (source && source->fd >= 0) source->ready(source, events[i].events);
        if (marked) streams_flush();
        if (queue_size()) queue_run(queue_size());
    }
    while (graves) {
        Source *source = graves;
        graves = source->next;
        if (Py_TYPE(source)->tp_clear) Py_TYPE(source)->tp_clear((PyObject *)source);
        Py_DECREF(source);
    }
}

/* Take a bound method apart; anything else is called as it is. */
void take_method(Method *method, PyObject *object, const char *name) {
    PyObject *found = PyObject_GetAttrString(object, name);
    if (!found) broken();
    if (PyMethod_Check(found)) {
        method->function = Py_NewRef(PyMethod_GET_FUNCTION(found));
        method->self = Py_NewRef(PyMethod_GET_SELF(found));
        Py_DECREF(found);
    } else {
        method->function = found;
        method->self = NULL;
    }
}

void drop_method(Method *method) {
    Py_CLEAR(method->function);
    Py_CLEAR(method->self);
}

PyObject *call_method(Method *method, PyObject *first, PyObject *second) {
    PyObject *args[] = {method->self, first, second};
    size_t count = first ? second ? 2 : 1 : 0;
    PyObject *result = method->self ? PyObject_Vectorcall(method->function, args, count + 1, NULL)
                                    : PyObject_Vectorcall(method->function, args + 1, count, NULL);
    if (!result) broken();
    return result;
}
