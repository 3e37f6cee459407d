cimport cython

from loopcore.streams.calls cimport StreamCall
from loopcore.streams.chunks cimport Chunks
from loopcore.streams.intake cimport Intake



cdef class Reading(StreamCall):
    cdef Intake _intake

    cdef object _wait_for_more(self, str name, Py_ssize_t needed)
    cdef object _abandon(self)
    cdef object _retire(self)


cdef class Read(Reading):
    cdef Py_ssize_t _count

    cdef object _describe(self)
    @cython.locals(intake=Intake, count=Py_ssize_t, size=Py_ssize_t)
    cdef object _advance(self, bint first)


cdef class ReadExactly(Reading):
    cdef Py_ssize_t _count

    cdef object _describe(self)
    @cython.locals(intake=Intake, count=Py_ssize_t)
    cdef object _advance(self, bint first)


cdef class ReadUntil(Reading):
    cdef object _separators
    cdef Py_ssize_t _shortest
    cdef Py_ssize_t _longest
    cdef Py_ssize_t _offset

    cdef object _describe(self)
    @cython.locals(intake=Intake, chunks=Chunks, size=Py_ssize_t, offset=Py_ssize_t, needed=Py_ssize_t)
    cdef object _advance(self, bint first)
    cdef object _begin(self)
    @cython.locals(chunks=Chunks, best=Py_ssize_t, length=Py_ssize_t, at=Py_ssize_t)
    cdef bint _search(self) except -1
    cdef object _taken(self)
    cdef object _overrun(self, str message, Py_ssize_t consumed)
    cdef object _ended(self, bytes rest)


cdef class ReadLine(ReadUntil):
    cdef object _describe(self)
    @cython.locals(intake=Intake, chunks=Chunks)
    cdef object _overrun(self, str message, Py_ssize_t consumed)
    cdef object _ended(self, bytes rest)


cdef class NextLine(ReadLine):
    cdef object _describe(self)
    cdef object _ended(self, bytes rest)


cpdef object new_read(Intake intake, Py_ssize_t count)
cpdef object new_readexactly(Intake intake, Py_ssize_t count)
