cimport cython

from loopcore.kernel.scheduler cimport Scheduler
from loopcore.ports.operations cimport Outgoing, Send
from loopcore.transports.accepted cimport close_socket
from loopcore.transports.driver cimport Sink
from loopcore.transports.driver_completion_reader cimport CompletionReader

cdef Py_ssize_t _VECTOR_LIMIT, _AWAITED_LIMIT, _DIRECT


cdef class CompletionDriver(CompletionReader):
    cdef Outgoing _sending
    cdef Py_ssize_t _in_flight
    cdef bint _is_sending
    cdef bint _is_counted
    cdef bint _is_dropped
    cdef bint _is_awaited

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object write(self, object item, Py_ssize_t size)
    @cython.locals(goal=cython.longlong)
    cpdef Py_ssize_t write_some(self, object item) except -1
    cpdef object flush(self)
    cdef object _answer(self)
    cpdef object run_flush(self)
    cdef bint _submit_or_fail(self) except -1
    cdef object _submit(self)
    @cython.locals(sending=Outgoing, first=list, in_flight=Py_ssize_t)
    cdef object _submit_queue(self)
    @cython.locals(sending=Outgoing, is_dropped=bint, is_counted=bint)
    cpdef object _run(self)
    cdef bint _takes_note(self, object result) except -1
    cdef object _go_on(self)
    @cython.locals(sending=Outgoing, rest=list)
    cdef object _note_sent(self, Py_ssize_t sent)
    cpdef object discard(self)
    cpdef object release(self)
    cpdef object describe(self)
