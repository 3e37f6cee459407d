cdef class DirectPort:
    cpdef object wait(self, object timeout)


# Wait in a port, for `timeout` seconds, or without limit for None: by a pointer, if it has one, or else by name.
cdef inline object wait_in(object port, object timeout):
    if isinstance(port, DirectPort):
        return (<DirectPort>port).wait(timeout)
    return port.wait(timeout)
