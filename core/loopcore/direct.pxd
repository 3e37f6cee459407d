from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport Py_TYPE, PyTypeObject


cdef class DirectPort:
    cpdef object wait(self, object timeout)


# Wait in a port for at most `timeout` seconds, without limit for None: through the pointer if there is one, or by name.
cdef inline object wait_in(object port, object timeout):
    # The direct base first, in one comparison: `isinstance` would walk all base classes.
    if Py_TYPE(port).tp_base == <PyTypeObject *>DirectPort or isinstance(port, DirectPort):
        return (<DirectPort>port).wait(timeout)
    return port.wait(timeout)


# The result of a wait as a list, which it nearly always is already.
cdef inline list listed(object found):
    return <list>found if type(found) is list else list(found)


cdef inline Py_ssize_t how_many(object found) except -1:
    return PyList_GET_SIZE(found) if type(found) is list else len(found)
