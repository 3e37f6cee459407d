/* The list of tasks that are not done: an array of borrowed pointers, for the compiled kernel (docs/adr/0007).
 *
 * Each task stores its place in the array, counted from 1, so that it is added and removed in constant time, without a
 * weak reference, a hash or an allocation. A task removes itself when it is done, or at the latest when it is destroyed.
 * Under the GIL every function here is one step: none of them runs other code. Without it the list is not used. One module
 * includes it: the list is that module's. Interpreted tasks are in a WeakSet. */

#ifndef LOOPCORE_TASKS_H
#define LOOPCORE_TASKS_H

#include "loopcore/_native/threads.h"
#include <Python.h>

typedef struct {
    PyObject *task;
    Py_ssize_t *place;
} loopcore_listed;

#define LOOPCORE_SMALL_LIST 256
static loopcore_listed *loopcore_tasks = NULL;
static Py_ssize_t loopcore_task_count = 0, loopcore_task_room = 0;
static LOOPCORE_SHARED(long long) loopcore_last_number = 0; /* atomic, `++` is one step */

static int
loopcore_resize_list(Py_ssize_t room)
{
    loopcore_listed *moved = PyMem_RawRealloc(loopcore_tasks, (size_t)room * sizeof(loopcore_listed));
    if (moved == NULL) {
        return -1;
    }
    loopcore_tasks = moved;
    loopcore_task_room = room;
    return 0;
}

static inline int
loopcore_list_task(PyObject *task, Py_ssize_t *place)
{
    if (loopcore_task_count == loopcore_task_room
            && loopcore_resize_list(loopcore_task_room ? 2 * loopcore_task_room : LOOPCORE_SMALL_LIST) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    loopcore_tasks[loopcore_task_count].task = task;
    loopcore_tasks[loopcore_task_count].place = place;
    *place = ++loopcore_task_count;
    return 0;
}

static inline void
loopcore_unlist_task(Py_ssize_t *place)
{
    Py_ssize_t at = *place;
    if (at == 0) {
        return;
    }
    *place = 0;
    loopcore_task_count--;
    if (at <= loopcore_task_count) {
        loopcore_tasks[at - 1] = loopcore_tasks[loopcore_task_count];
        *loopcore_tasks[at - 1].place = at;
    }
    if (loopcore_task_room > LOOPCORE_SMALL_LIST && loopcore_task_count < loopcore_task_room / 4) {
        (void)loopcore_resize_list(loopcore_task_room / 2);  /* if this fails, it keeps its size */
    }
}

/* Appending allocates no tracked object, so no garbage collection or other code runs between two tasks. A task
 * without references is being destroyed: the attributes of its subclass are dropped before it is removed here. */
static PyObject *
loopcore_tasks_listed(void)
{
    PyObject *found = PyList_New(0);
    Py_ssize_t at;
    if (found == NULL) {
        return NULL;
    }
    for (at = 0; at < loopcore_task_count; at++) {
        PyObject *task = loopcore_tasks[at].task;
        if (Py_REFCNT(task) > 0 && PyList_Append(found, task) < 0) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

static inline long long
loopcore_next_number(void)
{
    return ++loopcore_last_number;
}

#endif
