cimport cython

from loopcore._native.threads cimport shared
from loopcore_backends.proactor._associations cimport Association, Overlapped
from loopcore_backends.proactor._registrations cimport Registrations


@cython.final
cdef class CompletionPort:
    cdef object _name
    cdef object _multiplexer
    cdef Registrations _registrations
    cdef object _memory
    cdef list _packets
    cdef list _done_at_once
    cdef object _asked
    cdef shared _has_marked
    cdef shared _owner
    cdef shared _is_busy
    cdef shared _woken
    cdef shared _is_closed
    cdef list _to_close
    cdef object _unfinished
    cdef object _process

    @cython.locals(was_busy=cython.bint)
    cpdef object start(self, object operation)
    @cython.locals(association=Association)
    cdef object _start(self, object operation)
    cpdef object post(self, object operation, object result)
    @cython.locals(overlapped=Overlapped)
    cpdef object cancel(self, object operation)
    @cython.locals(association=Association)
    cdef object _cancel(self, Overlapped overlapped)
    @cython.locals(overlapped=Overlapped)
    cdef object _cancel_what_was_asked_for(self)
    @cython.locals(association=Association, overlapped=Overlapped)
    cdef object _cancel_what_is_marked(self)
    cpdef list dequeue(self, object timeout)
    @cython.locals(association=Association)
    cdef object _wait(self, object timeout)
    cpdef object wake(self)
    cpdef list close(self)
    cdef object _must_be_open(self)
    @cython.locals(association=Association, overlapped=Overlapped)
    cdef object _take_apart(self)
    cdef list _drop_packets(self)
    @cython.locals(overlapped=Overlapped)
    cdef object _begin(self, object operation, Association association, Py_ssize_t sent)
    cdef object _try(self, Overlapped overlapped, Association association, int bits)
    cdef object _fire(self, Association association, int bits)
    @cython.locals(overlapped=Overlapped)
    cdef object _fire_polls(self, Association association, int bits)
    @cython.locals(overlapped=Overlapped)
    cdef object _go_on_reading(self, Association association, int bits)
    @cython.locals(overlapped=Overlapped)
    cdef object _go_on_writing(self, Association association, int bits)
    @cython.locals(association=Association)
    cdef object _end(self, Overlapped overlapped, object result)
    @cython.locals(overlapped=Overlapped)
    cdef object _fail(self, Association association, object error)
    @cython.locals(association=Association)
    cdef object _register(self)
    cdef list _taken(self)
