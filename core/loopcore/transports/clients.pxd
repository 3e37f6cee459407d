cimport cython


cdef class Clients:
    cdef dict _references
    cdef public dict _waiters
    cdef bint _is_closed
    cdef bint _have_no_delay

    cdef int _add(self, object transport) except -1
    cdef int _remove(self, object transport) except -1
    cdef object _end_if_empty(self)


cpdef object note_no_delay(Clients server, bint have)

@cython.locals(clients=Clients)
cpdef bint needs_no_delay(object server) except -1

@cython.locals(clients=Clients)
cpdef object attach(object server, object transport)

@cython.locals(clients=Clients)
cpdef object detach(object server, object transport)
