from loopcore._native.interpreter cimport send_or_throw


cdef class Step:
    cdef public object _coro
    cdef public int _how


cdef class Stop:
    cdef public object value


cdef inline object advance(Step step, object thrown, object context):
    return send_or_throw(step._coro, thrown, context, &step._how)
