cimport cython

from loopcore.kernel.completions cimport Completions
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.ports.operations cimport Operation, Outgoing, Poll, Receive, Send
from loopcore.transports.accepted cimport close_socket
from loopcore.transports.driver cimport Sink
from loopcore.transports.driver_buffered cimport BufferedStreamDriver
from loopcore.transports.multishot_receiver cimport MultishotReceiver

cdef Py_ssize_t _LARGE, _SMALL
cdef int _SMALL_ONES, _ENDING
cdef Py_ssize_t _VECTOR_LIMIT, _AWAITED_LIMIT, _DIRECT


cdef class CompletionDriver(BufferedStreamDriver):
    cdef Completions _completions
    cdef Operation _receiving
    cdef MultishotReceiver _receiver
    cdef Poll _polling
    cdef int _small_ones
    cdef bint _is_ending
    cdef Outgoing _sending
    cdef Py_ssize_t _in_flight
    cdef bint _is_sending
    cdef bint _is_counted
    cdef bint _is_dropped
    cdef bint _is_awaited

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    @cython.locals(receiving=Operation)
    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    @cython.locals(sink=Sink, size=Py_ssize_t)
    cpdef object _arrived(self, object result)
    @cython.locals(size=Py_ssize_t, room=Py_ssize_t, is_left=bint)
    cdef object _receive_once(self, int bits)
    cdef object _adapt_receive_mode(self, Py_ssize_t size)
    @cython.locals(is_edged=bint)
    cdef object _poll(self)
    @cython.locals(sink=Sink, size=Py_ssize_t, position=Py_ssize_t, count=Py_ssize_t, largest=Py_ssize_t)
    cdef object _fill(self, object data, object lent)
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
    cdef bint _needs_turn_after(self, object result) except -1
    cdef object _go_on(self)
    @cython.locals(sending=Outgoing, rest=list)
    cdef object _note_sent(self, Py_ssize_t sent)
    cpdef object discard(self)
    cpdef object release(self)
    cpdef object describe(self)
