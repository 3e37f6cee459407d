cimport cython

from loopcore.kernel.completions cimport Completions
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.ports.operations cimport Operation, Poll, Receive
from loopcore.transports.driver cimport Sink
from loopcore.transports.driver_buffered cimport BufferedStreamDriver
from loopcore.transports.multishot_receiver cimport MultishotReceiver

cdef Py_ssize_t _RECEIVE_LIMIT, _LARGE, _SMALL
cdef int _SMALL_ONES, _ENDING


cdef class CompletionReader(BufferedStreamDriver):
    cdef Completions _completions
    cdef Operation _receiving
    cdef MultishotReceiver _receiver
    cdef Poll _polling
    cdef int _small_ones
    cdef bint _is_ending

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
