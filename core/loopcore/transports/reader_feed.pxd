cimport cython

from loopcore.kernel.future cimport Future


cdef class ReaderFeed:
    cdef object _protocol
    cdef unsigned int _version

    @cython.locals(feed=ReaderFeed, unread=bytearray)
    cpdef object data_received(self, bytes data)
    cdef bytearray get_unread(self)
    @cython.locals(version=cython.uint)
    cdef bytearray _unread_of(self, object reader)
    cdef bint _is_known(self, object kind) except -1


cdef object reader_of(object protocol)
cdef int tell_feed(ReaderFeed feed) except -1
@cython.locals(future=Future)
cdef object tell(object reader, bytearray unread)
cdef object pause(object reader)
cpdef ReaderFeed feed_of(object protocol)
