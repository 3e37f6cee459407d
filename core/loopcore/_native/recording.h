/* For observers that record: a counter, a buffer as words, whose code a callback runs. recording.py has the same. */
#ifndef LOOPCORE_RECORDING_H
#define LOOPCORE_RECORDING_H

#include <Python.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

/* Steps of a counter that never stops. A reader derives the length of a step, a few ns, from the clock. */
static inline unsigned long long
loopcore_counter(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __rdtsc() >> 4;
#elif defined(__aarch64__)
    unsigned long long count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((unsigned long long)now.tv_sec * 1000000000 + now.tv_nsec) >> 2;
#endif
}

/* CPU time of the calling thread, in ns: time.thread_time_ns(). */
static inline unsigned long long
loopcore_thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (unsigned long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The memory of a writable buffer, which the caller keeps alive and does not resize. */
static inline unsigned long long *
loopcore_words(PyObject *buffer)
{
    Py_buffer view;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE) < 0) {
        return NULL;
    }
    unsigned long long *words = view.buf;
    PyBuffer_Release(&view);
    return words;
}

/* A number that stands for the code that a callback runs, while that code is kept alive: the address of the code of a
   Python function or method, of the definition of a function in C, or of a type. 0 for anything else: all `__new__` of
   types, for example, have one definition. */
static inline unsigned long long
loopcore_address_of_code(PyObject *what)
{
    if (PyMethod_Check(what)) {
        what = PyMethod_GET_FUNCTION(what);
    }
    if (PyFunction_Check(what)) {
        return (uintptr_t)PyFunction_GET_CODE(what);
    }
    if (PyCFunction_Check(what)) {
        PyObject *self = PyCFunction_GET_SELF(what);
        return self != NULL && PyType_Check(self) ? 0 : (uintptr_t)((PyCFunctionObject *)what)->m_ml;
    }
    return PyType_Check(what) ? (uintptr_t)what : 0;
}

#endif
