cimport cython

from loopcore.kernel.future cimport Future
from loopcore.streams.chunks cimport Chunks


cdef class Intake:
    cdef public object _loop
    cdef public Py_ssize_t _limit
    cdef public Chunks _chunks
    cdef Py_ssize_t _needed
    cdef public bint _eof
    cdef public bint _paused
    cdef public object _waiter
    cdef public object _exception
    cdef public object _transport
    cdef object _make_future
    cdef public object _source_traceback

    @cython.locals(chunks=Chunks)
    cdef object _feed(self, bytes data)
    cdef object _pause(self)
    cdef object _resume(self)
    @cython.locals(future=Future)
    cdef object _wake(self)
    cdef object _enter(self, str name)
    cdef object _refuse(self, str name)
    cdef object _wait(self, str name, Py_ssize_t needed)
    cdef object _leave(self, object future)
    @cython.locals(taken=bytes)
    cdef bytes _take(self, Py_ssize_t count)
