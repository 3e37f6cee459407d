/* What Python cannot say about the interpreter: steps of coroutines, calls in a context, clocks without an object.
 *
 * interpreter.py has the same functions in Python; what it calls `advance` is `loopcore_send_or_throw` here, without the
 * task. Public C API only, for Python 3.11 and later. */

#ifndef LOOPCORE_INTERPRETER_H
#define LOOPCORE_INTERPRETER_H

#include <Python.h>
#include <time.h>

/* Take the pending exception, with its traceback. */
static inline PyObject *
loopcore_raised_exception(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != NULL) {
        PyException_SetTraceback(value, trace);
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
#endif
}

/* Enter the context, call, leave. The callee reads its arguments straight out of the tuple `args`. */
static inline PyObject *
loopcore_run_in_context(PyObject *context, PyObject *callback, PyObject *args)
{
    PyObject *result;
    if (PyContext_Enter(context) < 0) {
        return NULL;
    }
    result = PyObject_Vectorcall(callback, ((PyTupleObject *)args)->ob_item, (size_t)PyTuple_GET_SIZE(args), NULL);
    if (PyContext_Exit(context) < 0) {
        Py_CLEAR(result);
    }
    return result;
}

/* Call in a context. Return None, or the exception that was raised. */
static inline PyObject *
loopcore_call_in_context(PyObject *context, PyObject *callback, PyObject *args)
{
    PyObject *result;
    if (!PyTuple_Check(args)) {
        PyErr_SetString(PyExc_TypeError, "the arguments of a handle must be a tuple"); /* the program set others */
        return loopcore_raised_exception();
    }
    result = loopcore_run_in_context(context, callback, args);
    if (result == NULL) {
        return loopcore_raised_exception();
    }
    Py_DECREF(result);
    Py_RETURN_NONE;
}

/* The value of a pending StopIteration, or NULL with another exception pending. */
static inline PyObject *
loopcore_returned_value(void)
{
    PyObject *stop, *value;
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) {
        return NULL;
    }
    stop = loopcore_raised_exception();
    value = PyObject_GetAttrString(stop, "value");
    Py_DECREF(stop);
    return value;
}

/* Run a coroutine to its next suspension: throw `thrown` into it, or send None if that is None. It runs in `context`,
 * or in the current one if that is None. Return the object it yielded (`how` is PYGEN_NEXT), its result (PYGEN_RETURN),
 * or the exception that it raised (PYGEN_ERROR). No StopIteration is made for a result. */
static inline PyObject *
loopcore_send_or_throw(PyObject *coro, PyObject *thrown, PyObject *context, int *how)
{
    PyObject *outcome = NULL;
    if (context != Py_None && PyContext_Enter(context) < 0) {
        *how = PYGEN_ERROR;
        return loopcore_raised_exception();
    }
    if (thrown == Py_None) {
        *how = PyIter_Send(coro, Py_None, &outcome);
    }
    else {
        outcome = PyObject_CallMethod(coro, "throw", "O", thrown);
        *how = PYGEN_NEXT;
        if (outcome == NULL) {
            outcome = loopcore_returned_value();
            *how = outcome == NULL ? PYGEN_ERROR : PYGEN_RETURN;
        }
    }
    if (context != Py_None && PyContext_Exit(context) < 0) {
        Py_CLEAR(outcome);
        *how = PYGEN_ERROR;
    }
    return *how == PYGEN_ERROR ? loopcore_raised_exception() : outcome;
}

/* Leave a StopIteration with `value` pending, for a bare `raise StopIteration`, which Cython compiles to a return of
 * NULL. None needs no exception: an iterator that returns NULL has ended with None. For others the interpreter makes one,
 * unless the value would be taken for its arguments or for itself. */
static inline void
loopcore_stop_with(PyObject *value)
{
    PyObject *stop;
    if (value == Py_None) {
        return;
    }
    if (!PyTuple_Check(value) && !PyExceptionInstance_Check(value)) {
        PyErr_SetObject(PyExc_StopIteration, value);
        return;
    }
    stop = PyObject_CallOneArg(PyExc_StopIteration, value);
    if (stop != NULL) {
        PyErr_SetObject(PyExc_StopIteration, stop);
        Py_DECREF(stop);
    }
}

/* time.monotonic_ns(), in nanoseconds. On macOS that is mach_absolute_time(), and CLOCK_MONOTONIC is another clock. */
static inline long long
loopcore_monotonic_ns(void)
{
#ifdef __APPLE__
    return (long long)clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
#endif
}

/* time.monotonic(), in seconds. */
static inline double
loopcore_monotonic(void)
{
    return (double)loopcore_monotonic_ns() / 1e9;
}

/* int(seconds * 1e9). */
static inline long long
loopcore_to_ns(double seconds)
{
    return (long long)(seconds * 1e9);
}

/* id(), which is an audited call: a number that no other object has while this one lives. */
static inline Py_ssize_t
loopcore_identity(PyObject *object)
{
    return (Py_ssize_t)object;
}

/* Whether `method` is `function` bound to `owner`, and not to an object that `owner` stands for. */
static inline int
loopcore_is_method(PyObject *method, PyObject *function, PyObject *owner)
{
    return PyMethod_Check(method) && PyMethod_GET_FUNCTION(method) == function && PyMethod_GET_SELF(method) == owner;
}

#endif
