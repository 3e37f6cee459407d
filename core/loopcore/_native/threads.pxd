# Declares threads.h. Interpreted, these numbers are Python's, and an attribute is read or written in one step.

cdef extern from "loopcore/_native/threads.h":
    ctypedef long long shared "LOOPCORE_SHARED(long long)"
    ctypedef double shared_double "LOOPCORE_SHARED(double)"
