/* asyncio's Task, as a base of which only the size is known: build_ext.py asks the Python that it builds for, and the
 * import fails where it is another. Its `__init__` is called through the slot, which is public, as Python does it. */

#ifndef LOOPCORE_ASYNCIO_TASK_H
#define LOOPCORE_ASYNCIO_TASK_H

#include <Python.h>

typedef struct {
    PyObject_HEAD
    char fields[LOOPCORE_TASK_SIZE - sizeof(PyObject)];
} loopcore_asyncio_task;

static inline int
loopcore_begin(PyObject *base, PyObject *task, PyObject *args, PyObject *named)
{
    return ((PyTypeObject *)base)->tp_init(task, args, named);
}

#endif
