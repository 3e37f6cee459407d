from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport Py_TYPE, PyTypeObject


cdef class DirectPort:
    cpdef object wait(self, object timeout)


# Wait in a port, for `timeout` seconds, or without limit for None: by a pointer, if it has one, or else by name.
cdef inline object wait_in(object port, object timeout):
    # First what a compiled backend is, by one look: `isinstance` goes through what else it is derived from.
    if Py_TYPE(port).tp_base == <PyTypeObject *>DirectPort or isinstance(port, DirectPort):
        return (<DirectPort>port).wait(timeout)
    return port.wait(timeout)


# What a wait has returned as a list, which it nearly always is.
cdef inline list listed(object found):
    return <list>found if type(found) is list else list(found)


cdef inline Py_ssize_t how_many(object found) except -1:
    return PyList_GET_SIZE(found) if type(found) is list else len(found)
