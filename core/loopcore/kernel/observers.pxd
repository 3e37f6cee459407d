cimport cython

from loopcore._native.threads cimport shared
from loopcore.hooks.observer cimport Observer

cdef int _POSTED


@cython.final
cdef class Observers:
    cdef shared wants
    cdef list _made
    cdef tuple _present
    cdef Observer _sole
    cdef tuple _of_posts
    cdef object _probes

    @cython.locals(observer=Observer, of_posts=tuple, wants=int)
    cpdef object adopt(self, Observer meter)
    cdef int report(self, int event, object what, long long number) except -1
    @cython.locals(observers=tuple, observer=Observer)
    cdef int report_posted(self, object what) except -1
    @cython.locals(observer=Observer)
    cdef int _tell_all(self, int event, object what, long long number) except -1
    cdef int _tell(self, Observer observer, int event, object what, long long number) except -1
    cpdef object _remove(self, Observer failed)
