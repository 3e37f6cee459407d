cimport cython
from cpython.object cimport PyObject

from loopcore.native.contexts cimport is_as_current, is_as_new, own, references, same_table


@cython.final
cdef class ContextPool:
    cdef object _template
    cdef object _spare
    cdef void *_thread

    cdef int begin(self) except -1
    cdef int end(self) except -1
    cdef object renew(self)
    cdef object forget(self)


cdef extern from *:
    """
    #define loopcore_take_spare_context(contexts) loopcore_take_out(&(contexts)->_spare)

    static inline PyObject *
    loopcore_take_out(PyObject **place)
    {
        PyObject *object = *place;
        *place = loopcore_none();
        return object;
    }
    """
    object take_spare_context "loopcore_take_spare_context" (ContextPool contexts)


# The template if it still equals the current context, otherwise a new one.
@cython.nonecheck(False)
cdef inline object template_of(ContextPool contexts):
    if contexts._template is not None and is_as_current(contexts._template):
        return contexts._template
    return contexts.renew()


# Return a context to run in to a caller that gives up its shared one: the spare context if it holds the same variables,
# the shared context itself if only the caller or the loop refers to it, otherwise a copy.
@cython.nonecheck(False)
cdef inline object acquire_context(ContextPool contexts, PyObject *shared):
    if contexts._spare is not None and same_table(<PyObject *>contexts._spare, shared):
        return take_spare_context(contexts)
    if <PyObject *>contexts._template == shared and references(shared) == 2:
        contexts._template = None
    return own(shared)


# Take back a context from `acquire_context`. One that was changed, or that fits no template, is freed with its caller.
@cython.nonecheck(False)
cdef inline void release_context(ContextPool contexts, object context) noexcept:
    if contexts._template is not None and is_as_new(context, <PyObject *>contexts._template):
        contexts._spare = context


# Whether no handle refers to the template any more, or only timers used the context that the spare is a copy of.
@cython.nonecheck(False)
cdef inline bint is_left(ContextPool contexts) noexcept:
    if contexts._template is None:
        return contexts._spare is not None
    return references(<PyObject *>contexts._template) == 1
