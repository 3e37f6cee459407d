# Entering and leaving a context.

cdef extern from "Python.h":
    int enter "PyContext_Enter" (object context) except -1
    int leave "PyContext_Exit" (object context) except -1
