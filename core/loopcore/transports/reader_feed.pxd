cimport cython

from loopcore.kernel.future cimport Future


cdef class ReaderFeed:
    cdef object _protocol
    cdef object _kind

    @cython.locals(feed=ReaderFeed, unread=bytearray)
    cpdef object data_received(self, bytes data)
    cdef bytearray get_unread(self)
    cdef object grew(self)
    cdef bytearray _unread_of(self, object reader)
    cdef bint _is_known(self, object kind) except -1


cdef object reader_of(object protocol)
@cython.locals(future=Future)
cdef object notify(object reader, bytearray unread)
cdef object pause(object reader)
cpdef ReaderFeed feed_of(object protocol)
