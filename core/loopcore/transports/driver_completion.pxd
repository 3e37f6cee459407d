cimport cython

from loopcore.kernel.completions cimport Completions
from loopcore.operations cimport Poll, Receive, Send
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.driver cimport Sink
from loopcore.transports.driver_queue cimport QueueingDriver
from loopcore.transports.inflow cimport Inflow

cdef Py_ssize_t _VECTOR_LIMIT
cdef Py_ssize_t _AWAITED_LIMIT
cdef Py_ssize_t _LARGE, _SMALL, _DIRECT, _RECEIVE_LIMIT
cdef int _SMALL_ONES, _ENDING, _FAILED, _UNTRIED


cdef class CompletionDriver(QueueingDriver):
    cdef Completions _completions
    cdef Receive _receiving
    cdef Inflow _inflow
    cdef Send _sending
    cdef Py_ssize_t _in_flight
    cdef bint _is_sending
    cdef bint _is_counted
    cdef bint _is_dropped
    cdef bint _is_awaited
    cdef Poll _polling
    cdef int _small_ones
    cdef bint _is_ending

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    @cython.locals(sink=Sink, size=Py_ssize_t)
    cpdef object _arrived(self, object result)
    @cython.locals(size=Py_ssize_t, room=Py_ssize_t, is_left=bint)
    cdef object _receive_once(self, int bits)
    cdef object _weigh(self, Py_ssize_t size)
    cdef bint _is_tcp(self) except -1
    @cython.locals(sink=Sink, size=Py_ssize_t, position=Py_ssize_t, count=Py_ssize_t, largest=Py_ssize_t)
    cdef object _fill(self, object data, object lent)
    cpdef object write(self, object item, Py_ssize_t size)
    @cython.locals(goal=cython.longlong)
    cpdef Py_ssize_t write_some(self, object item) except -1
    @cython.locals(sent=Py_ssize_t)
    cpdef object flush(self)
    cdef object _answer(self)
    cpdef object take_turn(self)
    cdef bint _submit_or_fail(self) except -1
    @cython.locals(sending=Send, first=list, in_flight=Py_ssize_t)
    cdef object _submit(self)
    @cython.locals(sending=Send, is_dropped=bint, is_counted=bint)
    cpdef object _run(self)
    cdef bint _takes_note(self, object result) except -1
    cdef object _go_on(self)
    @cython.locals(sending=Send, rest=list)
    cdef object _note_sent(self, Py_ssize_t sent)
    cpdef object discard(self)
    cpdef object release(self)
    cpdef object describe(self)
