cimport cython
from cpython.object cimport PyObject

from loopcore.kernel.runnable cimport Runnable
from loopcore.native.fd_table cimport find_by_event, find_by_fd

cdef int _SWEEPS_KEPT
cdef int _NEAR, _READ, _WRITE
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
    cdef list _by_fd
    cdef list _kept
    cdef long long _sweeps

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
    cdef object _let_go(self, object fd, Registration entry)
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
    @cython.locals(by_fd=list)
    cdef int _put_in(self, object fd, Registration entry) except -1
    cdef int _take_out(self, object fd) except -1
    cpdef object _shrink(self, object fd, int interest)


# Return an entry of the list for small descriptors, or None. The list holds only entries and None.
@cython.nonecheck(False)
cdef inline Registration near_entry(Readiness readiness, object fd):
    cdef PyObject *found = find_by_fd(<PyObject *>readiness._by_fd, <PyObject *>fd)
    return None if found is NULL else <Registration>found


# The target of an event with exactly those bits, as nearly all events have: the reader of a small descriptor, if it was
# registered before this tick. With None the caller has to use `lookup`.
@cython.nonecheck(False)
cdef inline Runnable near_reader(Readiness readiness, object event, int bits, long long tick):
    cdef PyObject *found = find_by_event(<PyObject *>readiness._by_fd, <PyObject *>event, bits)
    if found is NULL or (<Registration>found).reader_tick >= tick:
        return None
    return (<Registration>found).reader
