/* The ready queue, and handles: what call_soon and call_later promise.
 *
 * The queue is a ring of pointers. A handle is made for each call, because it is what the caller gets; it keeps the
 * arguments in itself and comes from a list of used ones, so no allocator runs. The context is copied for each, as
 * the interface says. Timers are appended to an array and go into a binary heap when the loop looks at them for the
 * first time: one that is cancelled before costs no ordering, one that is cancelled later stays until it is due.
 */
#include "pyfloor.h"

#define SPARES 1024

static PyObject **ring;
static size_t ring_size, ring_first, ring_count;
static Handle *spares[MAX_ARGS + 1][SPARES];
static int spare_count[MAX_ARGS + 1];

typedef struct {
    double when; /* beside the pointer: ordering looks at no handle */
    Handle *handle;
} Slot;

static Slot *fresh, *heap;
static PyObject *timers_context; /* of all timers: a loop may put off the copy, since few live until they are due */
static int fresh_count, fresh_size, heap_count, heap_size;

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
        if (marked) streams_flush();
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
    for (int i = 1; i <= h->nargs; i++) Py_CLEAR(h->args[i]);
}

static void handle_free(PyObject *self) {
    Handle *h = (Handle *)self;
    handle_clear(h);
    Py_CLEAR(h->context);
    if (spare_count[h->nargs] < SPARES) spares[h->nargs][spare_count[h->nargs]++] = h;
    else PyObject_Free(self);
}

/* callback, *args, context=None: the arguments of call_soon. Without a context it has `usual`, or a copy if that is NULL. */
Handle *handle_new(PyObject *const *args, Py_ssize_t nargs, PyObject *names, PyObject *usual) {
    if (nargs < 1 || nargs - 1 > MAX_ARGS || (names && PyTuple_GET_SIZE(names) > 1)) {
        PyErr_Format(PyExc_NotImplementedError, "the floor takes a callback and %d arguments at most", MAX_ARGS);
        return NULL;
    }
    Handle *h;
    int more = (int)nargs - 1;
    if (spare_count[more]) {
        h = spares[more][--spare_count[more]];
        Py_SET_REFCNT((PyObject *)h, 1);
    } else {
        if (!(h = PyObject_Malloc(sizeof(Handle) + (size_t)(more + 1) * sizeof(PyObject *)))) return NULL;
        PyObject_Init((PyObject *)h, &HandleType);
        h->head.run = handle_run;
        h->nargs = more;
    }
    h->place = -1;
    h->callback = Py_NewRef(args[0]);
    for (Py_ssize_t i = 1; i < nargs; i++) h->args[i] = Py_NewRef(args[i]);
    PyObject *context = names && PyTuple_GET_SIZE(names) ? args[nargs] : Py_None;
    if (context == Py_None) context = usual;
    h->context = context ? Py_NewRef(context) : PyContext_CopyCurrent();
    return h;
}

PyObject *call_soon(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    (void)self;
    Handle *h = handle_new(args, nargs, names, NULL);
    if (h) queue_push(Py_NewRef((PyObject *)h));
    return (PyObject *)h;
}

static Slot *with_room(Slot *array, int count, int *size) {
    if (count < *size) return array;
    *size = *size ? 2 * *size : 1024;
    array = realloc(array, (size_t)*size * sizeof *array);
    if (!array) Py_FatalError("pyfloor: no memory");
    return array;
}

static void put_fresh(int place, Slot slot) {
    fresh[place] = slot;
    slot.handle->place = place;
}

static void sift_up(int place, Slot slot) {
    while (place) {
        int above = (place - 1) / 2;
        if (heap[above].when <= slot.when) break;
        heap[place] = heap[above];
        place = above;
    }
    heap[place] = slot;
}

static void sift_down(int place, Slot slot) {
    for (;;) {
        int below = 2 * place + 1;
        if (below >= heap_count) break;
        if (below + 1 < heap_count && heap[below + 1].when < heap[below].when) below++;
        if (slot.when <= heap[below].when) break;
        heap[place] = heap[below];
        place = below;
    }
    heap[place] = slot;
}

static void take_fresh(Handle *h) {
    Slot last = fresh[--fresh_count];
    if (last.handle != h) put_fresh(h->place, last);
    h->place = -1;
}

PyObject *timer_start(double when, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    if (!timers_context) timers_context = PyContext_CopyCurrent();
    Handle *h = handle_new(args, nargs, names, timers_context);
    if (!h) return NULL;
    h->when = when;
    fresh = with_room(fresh, fresh_count, &fresh_size);
    put_fresh(fresh_count++, (Slot){when, h});
    return Py_NewRef((PyObject *)h);
}

/* When the first timer is due; a negative number: there is none. */
double timers_next(void) {
    for (int i = 0; i < fresh_count; i++) {
        heap = with_room(heap, heap_count, &heap_size);
        fresh[i].handle->place = -1;
        sift_up(heap_count++, fresh[i]);
    }
    fresh_count = 0;
    return heap_count ? heap[0].when : -1.0;
}

void timers_fire(void) {
    if (!heap_count) return;
    double due = now();
    while (heap_count && heap[0].when <= due) {
        Handle *h = heap[0].handle;
        Slot last = heap[--heap_count];
        if (heap_count) sift_down(0, last);
        handle_run((PyObject *)h);
        Py_DECREF(h);
        if (marked) streams_flush();
    }
}

static PyObject *handle_cancel(PyObject *self, PyObject *none) {
    (void)none;
    Handle *h = (Handle *)self;
    handle_clear(h);
    if (h->place >= 0) {
        take_fresh(h);
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
