# Declares attributes.h. An interpreted class has a dict anyway.

cdef extern from "loopcore/_native/attributes.h":
    int open_dict "loopcore_open_dict" (object type, Py_ssize_t offset) except -1
