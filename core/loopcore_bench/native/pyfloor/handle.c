/* The ready queue, and handles: what call_soon and call_later promise.
 *
 * The queue is a ring of pointers. A handle is made for each call, because it is what the caller gets; it keeps the
 * arguments in itself and comes from a list of used ones, so no allocator runs. The context is copied for each, as
 * the interface says. Timers are appended to an array and go into a binary heap when the loop looks at them for the
 * first time: one that is cancelled before costs no ordering.
 */
#include "pyfloor.h"

#define SPARES 1024

static PyObject **ring;
static size_t ring_size, ring_first, ring_count;
static Handle *spares[SPARES];
static int spare_count;
static Handle **fresh, **heap;
static Py_ssize_t fresh_count, fresh_size, heap_count, heap_size;

static void ring_grow(void) {
    size_t size = ring_size ? 2 * ring_size : 4096;
    PyObject **larger = malloc(size * sizeof *larger);
    if (!larger) Py_FatalError("pyfloor: no memory");
    for (size_t i = 0; i < ring_count; i++) larger[i] = ring[(ring_first + i) & (ring_size - 1)];
    free(ring);
    ring = larger;
    ring_size = size;
    ring_first = 0;
}

void queue_push(PyObject *runnable) {
    if (ring_count == ring_size) ring_grow();
    ring[(ring_first + ring_count++) & (ring_size - 1)] = runnable;
}

size_t queue_size(void) { return ring_count; }

void queue_run(size_t count) {
    while (count--) {
        PyObject *each = ring[ring_first];
        ring_first = (ring_first + 1) & (ring_size - 1);
        ring_count--;
        ((Runnable *)each)->run(each);
        Py_DECREF(each);
    }
}

static void handle_run(PyObject *self) {
    Handle *h = (Handle *)self;
    if (!h->callback) return;
    if (last_task) forget_task();
    if (PyContext_Enter(h->context) < 0) broken();
    PyObject *result =
        PyObject_Vectorcall(h->callback, h->args + 1, (size_t)h->nargs | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (!result) broken();
    Py_DECREF(result);
    if (PyContext_Exit(h->context) < 0) broken();
}

static void handle_clear(Handle *h) {
    Py_CLEAR(h->callback);
    for (Py_ssize_t i = 1; i <= h->nargs; i++) Py_DECREF(h->args[i]);
    h->nargs = 0;
}

static void handle_free(PyObject *self) {
    Handle *h = (Handle *)self;
    handle_clear(h);
    Py_CLEAR(h->context);
    if (spare_count < SPARES) spares[spare_count++] = h;
    else PyObject_Free(self);
}

/* callback, *args, context=None: the arguments of call_soon. */
Handle *handle_new(PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    if (nargs < 1 || nargs - 1 > MAX_ARGS || (names && PyTuple_GET_SIZE(names) > 1)) {
        PyErr_Format(PyExc_NotImplementedError, "the floor takes a callback and %d arguments at most", MAX_ARGS);
        return NULL;
    }
    Handle *h;
    if (spare_count) {
        h = spares[--spare_count];
        Py_SET_REFCNT((PyObject *)h, 1);
    } else if (!(h = PyObject_New(Handle, &HandleType))) {
        return NULL;
    }
    h->head.run = handle_run;
    h->place = -1;
    h->nargs = nargs - 1;
    h->callback = Py_NewRef(args[0]);
    for (Py_ssize_t i = 1; i < nargs; i++) h->args[i] = Py_NewRef(args[i]);
    PyObject *context = names && PyTuple_GET_SIZE(names) ? args[nargs] : Py_None;
    h->context = context == Py_None ? PyContext_CopyCurrent() : Py_NewRef(context);
    return h;
}

PyObject *call_soon(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    (void)self;
    Handle *h = handle_new(args, nargs, names);
    if (h) queue_push(Py_NewRef((PyObject *)h));
    return (PyObject *)h;
}

static void put(Handle **array, Py_ssize_t place, Handle *h) {
    array[place] = h;
    h->place = place;
}

static Handle **with_room(Handle **array, Py_ssize_t count, Py_ssize_t *size) {
    if (count < *size) return array;
    *size = *size ? 2 * *size : 1024;
    array = realloc(array, (size_t)*size * sizeof *array);
    if (!array) Py_FatalError("pyfloor: no memory");
    return array;
}

static void sift_up(Py_ssize_t place, Handle *h) {
    while (place) {
        Py_ssize_t above = (place - 1) / 2;
        if (heap[above]->when <= h->when) break;
        put(heap, place, heap[above]);
        place = above;
    }
    put(heap, place, h);
}

static void sift_down(Py_ssize_t place, Handle *h) {
    for (;;) {
        Py_ssize_t below = 2 * place + 1;
        if (below >= heap_count) break;
        if (below + 1 < heap_count && heap[below + 1]->when < heap[below]->when) below++;
        if (h->when <= heap[below]->when) break;
        put(heap, place, heap[below]);
        place = below;
    }
    put(heap, place, h);
}

static void take_out(Handle *h) {
    Handle *last;
    Py_ssize_t place = h->place;
    h->place = -1;
    if (!h->in_heap) {
        last = fresh[--fresh_count];
        if (last != h) put(fresh, place, last);
        return;
    }
    last = heap[--heap_count];
    if (last == h) return;
    if (place && heap[(place - 1) / 2]->when > last->when) sift_up(place, last);
    else sift_down(place, last);
}

PyObject *timer_start(double when, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    Handle *h = handle_new(args, nargs, names);
    if (!h) return NULL;
    h->when = when;
    h->in_heap = 0;
    fresh = with_room(fresh, fresh_count, &fresh_size);
    put(fresh, fresh_count++, h);
    return Py_NewRef((PyObject *)h);
}

/* When the first timer is due; a negative number: there is none. */
double timers_next(void) {
    for (Py_ssize_t i = 0; i < fresh_count; i++) {
        heap = with_room(heap, heap_count, &heap_size);
        fresh[i]->in_heap = 1;
        sift_up(heap_count++, fresh[i]);
    }
    fresh_count = 0;
    return heap_count ? heap[0]->when : -1.0;
}

void timers_fire(void) {
    if (!heap_count) return;
    double due = now();
    while (heap_count && heap[0]->when <= due) {
        Handle *h = heap[0];
        take_out(h);
        handle_run((PyObject *)h);
        Py_DECREF(h);
    }
}

static PyObject *handle_cancel(PyObject *self, PyObject *none) {
    (void)none;
    Handle *h = (Handle *)self;
    handle_clear(h);
    if (h->place >= 0) {
        take_out(h);
        Py_DECREF(h);
    }
    Py_RETURN_NONE;
}

static PyObject *handle_cancelled(PyObject *self, PyObject *none) {
    (void)none;
    return PyBool_FromLong(!((Handle *)self)->callback);
}

static PyObject *handle_when(PyObject *self, PyObject *none) {
    (void)none;
    return PyFloat_FromDouble(((Handle *)self)->when);
}

static PyMethodDef handle_methods[] = {
    {"cancel", handle_cancel, METH_NOARGS, NULL},
    {"cancelled", handle_cancelled, METH_NOARGS, NULL},
    {"when", handle_when, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject HandleType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyfloor.Handle",
    .tp_basicsize = sizeof(Handle),
    .tp_dealloc = handle_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = handle_methods,
};
