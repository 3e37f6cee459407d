cimport cython

from loopcore._native.threads cimport shared
from loopcore.hooks.observer cimport Entry, Observer
from loopcore.ports.direct cimport DirectPort
from loopcore_plugins.recorder.ring cimport Ring

cdef int _WANTED
cdef int _WAIT_BEGINS
cdef int _WAIT_ENDS
cdef int _QUEUED
cdef int _BEGINS
cdef int _ENDS
cdef int _DUE
cdef int _BEGIN
cdef int _WAIT
cdef int _WAKE
cdef int _SPAWN
cdef int _POST
cdef int _DONE
cdef int _DUE_RECORD
cdef int _NAME
cdef int _SITE
cdef int _RECEIVED
cdef int _SENT
cdef int _ACCEPTED
cdef int _RECEIVED_BY
cdef int _SENT_BY
cdef int _CPU
cdef int _RUN_QUEUE
cdef int _LABEL
cdef int _NAME_TASK
cdef int _HAS_BEGUN
cdef int _SHOW_SITE
cdef int _MEASURE
cdef int _WRITE_LATER
cdef int _SHOW_GIL_WAIT
cdef int _COUNT_CONNECTION
cdef int _GIL
cdef int _TASK
cdef int _THREADSAFE
cdef int _IO
cdef int _FLUSH
cdef unsigned long long _LONG_WAIT_MS
cdef long long _MEASURE_EVERY_NS
cdef unsigned long long _SUSPENDED_MASK
cdef int _MOST_EVENTS
cdef unsigned long long _LOW
cdef unsigned long long _NEVER
cdef unsigned long long _KEPT_MASK
cdef unsigned long long _ADDRESS


cdef class Tape(Observer):
    cdef readonly Ring ring
    cdef readonly object labels
    cdef object _loop
    cdef bytearray _labels_memory
    cdef unsigned long long *_kept_labels
    cdef unsigned int _generation
    cdef unsigned long long *_suspended
    cdef bytearray _memory
    cdef bint _is_first
    cdef long long _now_ns
    cdef unsigned long long _now_ms
    cdef unsigned long long _sites_at
    cdef int _sites_left
    cdef unsigned long long _long_tick_steps
    cdef unsigned long long _gil_wait_steps
    cdef DirectPort _port
    cdef long long _measured_at
    cdef int _schedstat
    cdef unsigned long long _began
    cdef long long _began_ns
    cdef long long _longest_ns
    cdef unsigned long long _longest_steps
    cdef object _check_delay
    cdef Py_ssize_t _ticks
    cdef Py_ssize_t _slow_ticks
    cdef dict _counted
    cdef shared has_later
    cdef object _later
    cdef public bint counts_connections
    cdef dict _connections

    # Those without `except` cannot raise: they call nothing that does, but `_slowly`, which keeps the exception.
    @cython.locals(label=int)
    cdef void tell(self, int event, object what, long long number) noexcept
    @cython.locals(kind=int, label=int)
    cdef void _queued(self, Entry entry, int source) noexcept
    @cython.locals(address=cython.ulonglong, kept=cython.ulonglong)
    cdef int _label_of(self, Entry entry, int source) noexcept
    cdef int _slowly(self, int part, object subject) noexcept
    cdef int _label_of_work(self, object work) except -1
    @cython.locals(label=int, kept=cython.ulonglong)
    cdef int _label_at(self, unsigned long long address, object work) except -1
    @cython.locals(label=int)
    cdef object _name(self, Entry task)
    cdef bint _has_begun(self, Entry task) except -1
    @cython.locals(number=cython.ulonglong, ending=int)
    cdef void _end_step(self, Entry task) noexcept
    @cython.locals(number=cython.ulonglong, last=cython.ulonglong, was_long=bint)
    cdef void _check_wait(self, Entry task) noexcept
    @cython.locals(label=int)
    cdef object _record_site(self, Entry task)
    @cython.locals(now=cython.longlong)
    cdef void _tick(self, int events) noexcept
    @cython.locals(ns_per_step=double)
    cdef object _measure(self)
    cdef object _record_gil_wait(self)
    cdef object _count_connection(self, object entry)
    cdef object _note_received(self, object transport, bint may_be_end)
    cdef object _note_sent(self, object transport)
    cdef object _note_count(self, int kind, long long count, unsigned long long who)
    cdef object _write_later(self)
    cdef object _note_totals(self)
