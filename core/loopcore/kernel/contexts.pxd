cimport cython
from cpython.object cimport PyObject

from loopcore.native.contexts cimport is_as_current, is_as_new, own, references, same_table


@cython.final
cdef class SharedContexts:
    cdef object _snapshot
    cdef object _turn
    cdef void *_thread

    cdef int begin(self) except -1
    cdef int end(self) except -1
    cdef object renew(self)
    cdef object forget(self)


cdef extern from *:
    """
    #define loopcore_take_turn(contexts) loopcore_take_out(&(contexts)->_turn)

    static inline PyObject *
    loopcore_take_out(PyObject **place)
    {
        PyObject *object = *place;
        *place = loopcore_none();
        return object;
    }
    """
    object take_turn "loopcore_take_turn" (SharedContexts contexts)


# The snapshot, if the current context still holds that, or else a new one.
@cython.nonecheck(False)
cdef inline object snapshot_of(SharedContexts contexts):
    if contexts._snapshot is not None and is_as_current(contexts._snapshot):
        return contexts._snapshot
    return contexts.renew()


# A context to run in, for who has this shared one and gives it up: the one that others took turns in, if that has the
# same; the shared one itself, if nobody else has it, or only the loop; or else a copy.
@cython.nonecheck(False)
cdef inline object begin_turn(SharedContexts contexts, PyObject *shared):
    if contexts._turn is not None and same_table(<PyObject *>contexts._turn, shared):
        return take_turn(contexts)
    if <PyObject *>contexts._snapshot == shared and references(shared) == 2:
        contexts._snapshot = None
    return own(shared)


# Take back what `begin_turn` gave. What is not as new, or not wanted by a snapshot, goes with its caller.
@cython.nonecheck(False)
cdef inline void end_turn(SharedContexts contexts, object context) noexcept:
    if contexts._snapshot is not None and is_as_new(context, <PyObject *>contexts._snapshot):
        contexts._turn = context


# Whether no handle has the snapshot any more, or only timers had what the turn is a copy of.
@cython.nonecheck(False)
cdef inline bint is_left(SharedContexts contexts) noexcept:
    if contexts._snapshot is None:
        return contexts._turn is not None
    return references(<PyObject *>contexts._snapshot) == 1
