cimport cython

cdef dict _CONVERTED


@cython.final
cdef class Delivery:
    cdef object _host
    cdef object _source
    cdef object _destination
    cdef dict _jobs

    cpdef object post(self, object source)
    cpdef object deliver(self, object source)
    cpdef object cancel_job(self, object destination)


@cython.locals(delivery=Delivery)
cpdef object wrap_pool_future(object host, object source, dict jobs)
