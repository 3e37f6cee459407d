cimport cython


cdef int _OPEN, _FLUSHING
cdef int _VECTOR_LIMIT
cdef Py_ssize_t _BATCH
cdef object _WHOLE


@cython.final
cdef class TlsEngine:
    cdef readonly int state
    cdef readonly bint agreed
    cdef readonly bint peer_closed
    cdef readonly object failure
    cdef readonly Py_ssize_t unencrypted
    cdef readonly object tls
    cdef object _incoming
    cdef object _outgoing
    cdef object _put
    cdef object _take
    cdef object _read
    cdef object _write
    cdef object _pending
    cdef bint _held
    cdef Py_ssize_t _unread
    cdef list _queue

    cdef object _move(self, object event)
    cpdef object start(self)
    cpdef bint shake_hands(self) except -1
    cpdef object fact(self, object name)
    cpdef object receive(self, object data)
    cpdef Py_ssize_t received_size(self) except -1
    cpdef bint readable(self) except -1
    @cython.locals(first=bytes, part=bytes, parts=list)
    cpdef bytes read(self)
    @cython.locals(size=Py_ssize_t, filled=Py_ssize_t, count=Py_ssize_t)
    cpdef Py_ssize_t read_into(self, object view) except -1
    cdef object _read_record(self, object view)
    @cython.locals(queue=list)
    cpdef object write(self, object item, Py_ssize_t size)
    cpdef Py_ssize_t outgoing_size(self) except -1
    cpdef bytes take_ciphertext(self)
    cpdef bytes take_outgoing(self)
    @cython.locals(size=Py_ssize_t, done=Py_ssize_t)
    cdef object _encrypt(self)
    @cython.locals(queue=list, parts=list, taken=Py_ssize_t, size=Py_ssize_t, excess=Py_ssize_t, cut=Py_ssize_t)
    cdef object _take_batch(self)
    cpdef object begin_close(self)
    cpdef object notify(self)
    cpdef Py_ssize_t drop(self) except -1
    cpdef object end(self)
    cpdef object forget(self)
