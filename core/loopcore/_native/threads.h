/* A number of a loop that other threads read, or write. The GIL makes a plain read or write of it one step, in one order
 * with all others; without it, C11's atomic types do. In Cython a change such as `+=` is a read and a write. */

#ifndef LOOPCORE_THREADS_H
#define LOOPCORE_THREADS_H

#include <Python.h>

#ifdef Py_GIL_DISABLED
#define LOOPCORE_SHARED(type) _Atomic(type)
#else
#define LOOPCORE_SHARED(type) type
#endif
#endif
