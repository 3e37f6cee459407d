# Declares epoll.h; epoll.py has the same function in Python.

cdef extern from "loopcore_backends/_native/epoll.h":
    list wait_timed "loopcore_epoll_wait" (object epoll, int fd, double timeout, int batch, unsigned long long *gil_steps)
