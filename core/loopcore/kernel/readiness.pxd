cimport cython

from loopcore.kernel.runnable cimport Runnable

cdef int _SWEEPS_KEPT
cdef int _READ, _WRITE
cdef int _KEPT
cdef int _DRAINED


@cython.final
@cython.freelist(64)
cdef class Registration:
    cdef public Runnable reader
    cdef public Runnable writer
    cdef public long long reader_tick
    cdef public long long writer_tick
    cdef public object fileobj
    cdef int _kept
    cdef long long _kept_sweep
    cdef object _owner


@cython.final
cdef class Readiness:
    cdef public long long tick
    cdef public bint changed
    cdef public bint keeps
    cdef public bint parks
    cdef object _backend
    cdef dict _table
    cdef list _kept
    cdef long long _sweeps

    cdef bint is_used(self)
    @cython.locals(entry=Registration, previous=Runnable)
    cpdef Runnable set_reader(self, object fd, Runnable runnable)
    @cython.locals(entry=Registration, previous=Runnable)
    cpdef Runnable set_writer(self, object fd, Runnable runnable)
    @cython.locals(entry=Registration, previous=Runnable)
    cpdef Runnable clear_reader(self, object fd)
    @cython.locals(entry=Registration, previous=Runnable)
    cpdef Runnable clear_writer(self, object fd)
    @cython.locals(entry=Registration)
    cpdef bint keep_reader(self, object fd, object owner, bint drained) except -1
    @cython.locals(entry=Registration)
    cpdef bint is_drained(self, object owner) except -1
    @cython.locals(entry=Registration)
    cpdef bint resume_reader(self, object fd, object owner, Runnable runnable) except -1
    @cython.locals(entry=Registration, kept=list)
    cpdef bint sweep(self) except -1
    cdef object _stop_keeping(self, object fd, Registration entry)
    @cython.locals(entry=Registration)
    cpdef object forget(self, object fd)
    @cython.locals(entry=Registration)
    cpdef Registration lookup(self, object fd)
    @cython.locals(entry=Registration)
    cpdef object note_fileobj(self, object fd, object fileobj)
    @cython.locals(entry=Registration)
    cpdef object find(self, object fileobj)
    cpdef object clear(self)
    @cython.locals(entry=Registration, interest=int)
    cpdef object register_all(self)
    @cython.locals(entry=Registration)
    cpdef list watched(self)
    @cython.locals(entry=Registration, wanted=int)
    cpdef Registration _entry(self, object fd, int interest)
    cpdef object _shrink(self, object fd, int interest)
