# What the compiled acceptor takes from the sockets API: accept4(2), which makes a connection non-blocking by itself, and
# the peer's address as `socket.accept` gives it. For the families of the Internet; the twin in Python takes any.
#
# Result, as in `interpreted_accepting.py`: None for "not now", else the descriptor and the address. `sock` is what the
# twin needs; C needs `fd` alone.

from cpython.object cimport PyObject

cdef extern from *:
    """
    #include <arpa/inet.h>
    #include <errno.h>
    #include <fcntl.h>
    #include <netinet/in.h>
    #include <string.h>
    #include <sys/socket.h>
    #include <unistd.h>

    static inline int
    loopcore_accept4(int fd, struct sockaddr *peer, socklen_t *size)
    {
    #if defined(SOCK_NONBLOCK) && defined(SOCK_CLOEXEC)
        return accept4(fd, peer, size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    #else
        int made = accept(fd, peer, size);
        if (made >= 0 && (fcntl(made, F_SETFD, FD_CLOEXEC) < 0 || fcntl(made, F_SETFL, O_NONBLOCK) < 0)) {
            int error = errno;
            close(made);
            errno = error;
            return -1;
        }
        return made;
    #endif
    }

    static PyObject *
    loopcore_accept_one(PyObject *sock, int fd)
    {
        union {
            struct sockaddr any;
            struct sockaddr_in four;
            struct sockaddr_in6 six;
            struct sockaddr_storage space;
        } peer;
        socklen_t size = sizeof(peer);
        char text[INET6_ADDRSTRLEN];
        PyObject *accepted = NULL;
        int made;
        memset(&peer, 0, sizeof(peer));
        made = loopcore_accept4(fd, &peer.any, &size);
        if (made < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED) {
                Py_RETURN_NONE;
            }
            return PyErr_SetFromErrno(PyExc_OSError);
        }
        if (peer.any.sa_family == AF_INET) {
            if (inet_ntop(AF_INET, &peer.four.sin_addr, text, sizeof(text)) != NULL) {
                accepted = Py_BuildValue("(i(si))", made, text, (int)ntohs(peer.four.sin_port));
            }
        }
        else if (inet_ntop(AF_INET6, &peer.six.sin6_addr, text, sizeof(text)) != NULL) {
            accepted = Py_BuildValue("(i(siII))", made, text, (int)ntohs(peer.six.sin6_port),
                                     (unsigned int)ntohl(peer.six.sin6_flowinfo),
                                     (unsigned int)peer.six.sin6_scope_id);
        }
        if (accepted == NULL) {
            if (!PyErr_Occurred()) {
                PyErr_SetFromErrno(PyExc_OSError);
            }
            close(made);
        }
        return accepted;
    }
    """
    object accept_one "loopcore_accept_one" (object sock, int fd)
