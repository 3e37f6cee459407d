cimport cython

from loopcore.kernel.runnable cimport Runnable


@cython.final
cdef class Registration:
    cdef public Runnable reader
    cdef public Runnable writer
    cdef public long long reader_tick
    cdef public long long writer_tick
    cdef public object fileobj


@cython.final
cdef class Readiness:
    cdef public long long tick
    cdef object _backend
    cdef dict _table

    @cython.locals(entry=Registration, previous=Runnable)
    cpdef Runnable set_reader(self, object fd, Runnable runnable)
    @cython.locals(entry=Registration, previous=Runnable)
    cpdef Runnable set_writer(self, object fd, Runnable runnable)
    @cython.locals(entry=Registration, previous=Runnable)
    cpdef Runnable clear_reader(self, object fd)
    @cython.locals(entry=Registration, previous=Runnable)
    cpdef Runnable clear_writer(self, object fd)
    @cython.locals(entry=Registration)
    cpdef object forget(self, object fd)
    @cython.locals(entry=Registration)
    cpdef Registration lookup(self, object fd)
    @cython.locals(entry=Registration)
    cpdef object note_fileobj(self, object fd, object fileobj)
    @cython.locals(entry=Registration)
    cpdef object find(self, object fileobj)
    cpdef object clear(self)
    cpdef list watched(self)
    @cython.locals(entry=Registration, wanted=int)
    cpdef Registration _entry(self, object fd, int interest)
    cpdef object _shrink(self, object fd, int interest)
