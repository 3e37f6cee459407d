cimport cython

from loopcore.kernel.readiness cimport Readiness
from loopcore.kernel.scheduler cimport Scheduler
from loopcore.transports.driver cimport DatagramDriver, Sink
from loopcore.transports.multishot_receiver cimport MultishotReceiver


cdef class ReadinessDatagramDriver(DatagramDriver):
    cdef Readiness _readiness
    cdef object _fileno
    cdef int _internet
    cdef object _queue
    cdef bint _blocked
    cdef object _retry
    cdef int _burst
    cdef int _full_events
    cdef object _buffer
    cdef object _readable

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    cpdef object _run(self)
    @cython.locals(sink=Sink, left=int, item=bytes)
    cpdef object _receive(self)
    cdef object _receive_one(self)
    cdef object _receive_other(self)
    cpdef bint send(self, object item, object address, bint connected) except -1
    cpdef object queue(self, object item, object address, bint connected, Py_ssize_t size)
    cpdef object flush(self)
    cpdef object run_flush(self)
    @cython.locals(sent=int, size=Py_ssize_t)
    cdef bint _send_one(self, object item, object address, bint connected) except -1
    @cython.locals(gone=int, sent=bint, size=Py_ssize_t)
    cdef object _send_queue(self)
    cdef object _drop_first(self, Py_ssize_t size)
    cpdef object _on_refused(self, object exc)
    cdef object _retry_later(self)
    cdef object _unblock(self)
    cpdef object discard(self)
    cpdef object release(self)
    cpdef object describe(self)


cdef class CompletionDatagramDriver(ReadinessDatagramDriver):
    cdef MultishotReceiver _receiver

    cdef object _prepare(self, Scheduler scheduler, Sink sink, object sock, object context)
    cpdef object start_reading(self)
    cpdef object stop_reading(self)
    cpdef object _arrived(self, object result)
    cpdef object release(self)
