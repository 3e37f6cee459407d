# epoll_ctl(2) for the compiled epoll backend: every connection adds a row and removes it.
#
# It does the work of select.epoll's methods for an open instance and a small number; in all other cases the methods
# are called, and raise the errors. The GIL is kept: the call does not block.

cdef extern from *:
    """
    #ifdef __linux__
    #include <limits.h>
    #include <sys/epoll.h>

    /* 1 if it is done, 0 if the method has to be called, -1 with an OSError set. */
    static int
    loopcore_epoll_ctl(int instance, int what, PyObject *number, unsigned int interest)
    {
        struct epoll_event event;
        long fd;
        if (instance < 0 || !PyLong_CheckExact(number)) {
            return 0;
        }
        fd = PyLong_AsLong(number);
        if (fd < 0 || fd > INT_MAX) {
            PyErr_Clear();
            return 0;
        }
        event.events = interest;
        event.data.u64 = 0;
        event.data.fd = (int)fd;
        if (epoll_ctl(instance, what, (int)fd, &event) < 0) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        return 1;
    }
    #define loopcore_add_row(instance, number, interest) loopcore_epoll_ctl(instance, EPOLL_CTL_ADD, number, interest)
    #define loopcore_take_row(instance, number) loopcore_epoll_ctl(instance, EPOLL_CTL_DEL, number, 0)
    #else
    #define loopcore_add_row(instance, number, interest) 0
    #define loopcore_take_row(instance, number) 0
    #endif
    """
    int add_row "loopcore_add_row" (int instance, object number, unsigned int interest) except -1
    int take_row "loopcore_take_row" (int instance, object number) except -1
