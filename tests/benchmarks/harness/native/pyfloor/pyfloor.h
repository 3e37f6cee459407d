/* The floor with Python in it: the least that a loop with asyncio's interface can spend.
 *
 * C that calls the Python objects which the interface names (callbacks, coroutines, protocols, contexts) and makes those
 * which it promises (handles, tasks, futures, transports, bytes), and nothing else. It runs the workloads of the harness
 * unchanged and is no loop to use. Left out, so that it can be lower than what is possible, never higher: an exception
 * in a callback (it ends the process), debug mode, hooks, names and cancelling of tasks, the collector's tracking of
 * handles and transports, water marks, contexts of protocols, and the poll while callbacks are ready.
 * docs/explanation/benchmarks.md says what each row of it stands for.
 *
 * All of it runs with the interpreter's lock, which is given up in epoll_wait(2) alone. One loop at a time.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#ifdef Py_GIL_DISABLED
#error "the floor relies on the interpreter's lock, and this is a free-threaded build"
#endif

#define MAX_ARGS 4
#define READ_BYTES (256 * 1024)

typedef struct {
    PyObject_HEAD
    void (*run)(PyObject *self); /* what the ready queue does with it */
} Runnable;

typedef struct { /* 64 bytes without arguments: a line of the cache */
    Runnable head;
    PyObject *callback; /* NULL: cancelled */
    PyObject *context;
    double when;      /* of a timer; else unused */
    int nargs, place; /* of a timer that is not yet in the heap: where it is; else -1 */
    PyObject *args[]; /* the first is room for the `self` of a bound method (PEP 590) */
} Handle;

typedef struct {
    Runnable head;
    PyObject *result, *error;     /* one of them, once it is done */
    PyObject *waiter;             /* the one task that awaits it, before any callback */
    PyObject *callback, *context; /* the first done callback */
    PyObject *more;               /* list of (callback, context) */
    char done, blocking;
} Future;

typedef struct Task {
    Future future;
    PyObject *coro, *run_context;
    struct Task *next, *before; /* all of them */
    char log_destroy_pending;
} Task;

typedef struct Source { /* what epoll knows: each is a Python object that begins so */
    PyObject_HEAD
    void (*ready)(struct Source *self, uint32_t events);
    struct Source *next; /* of those that are closed and not yet let go */
    int fd;
} Source;

typedef struct {
    PyObject_HEAD
    int poller, waker, waiting, stopping, running;
} Loop;

typedef struct {
    PyObject *function, *self; /* a method taken apart: calling the function with `self` is cheaper */
} Method;

extern PyTypeObject HandleType, FutureType, TaskType, StreamType, TalkType;
extern Loop *the_loop;
extern PyObject *current_tasks, *last_task;

void broken(void) __attribute__((noreturn));
double now(void);

void queue_push(PyObject *runnable); /* takes the reference */
size_t queue_size(void);
void queue_run(size_t count);

Handle *handle_new(PyObject *const *args, Py_ssize_t nargs, PyObject *names, PyObject *usual);
PyObject *timer_start(double when, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *call_soon(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
double timers_next(void);
void timers_fire(void);

Future *future_new(void);
void future_finish(Future *future, PyObject *result, PyObject *error);
PyObject *future_done(PyObject *result);
PyObject *task_new(PyObject *coro, PyObject *context);
int tasks_ready(void);
void forget_task(void); /* no task runs: asyncio.current_task() says so */

void watch(Source *source, int op, uint32_t interest);
void bury(Source *source); /* takes the reference; lets it go when no event of this wait can be its own */
void poll_wait(double when);
PyObject *call_method(Method *method, PyObject *first, PyObject *second);
void take_method(Method *method, PyObject *object, const char *name);
void drop_method(Method *method);

extern PyObject *marked; /* streams that have something to send */
int streams_ready(void);
void streams_flush(void);
int talks_ready(void);
void talk_wait(PyObject *talk, PyObject *task); /* takes the reference of the task */
PyObject *serve(PyObject *self, PyObject *args, PyObject *names);
PyObject *serve_talks(PyObject *self, PyObject *args, PyObject *names);
PyObject *serve_datagrams(PyObject *self, PyObject *args, PyObject *names);
PyObject *resolve(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *add_reader(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *remove_reader(PyObject *self, PyObject *fd);
PyObject *adopt(PyObject *self, PyObject *args, PyObject *names);
