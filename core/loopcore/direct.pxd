from cpython.list cimport PyList_GET_SIZE


cdef class DirectPort:
    cpdef object wait(self, object timeout)


# Wait in a port, for `timeout` seconds, or without limit for None: by a pointer, if it has one, or else by name.
cdef inline object wait_in(object port, object timeout):
    if isinstance(port, DirectPort):
        return (<DirectPort>port).wait(timeout)
    return port.wait(timeout)


# How many events a wait has returned: in a list, as nearly always, or in another sequence.
cdef inline Py_ssize_t how_many(object events) except -1:
    if type(events) is list:
        return PyList_GET_SIZE(events)
    return len(events)
