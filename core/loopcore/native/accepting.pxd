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

    /* What Py_BuildValue("(i(si))") makes of inet_ntop(3), in a tenth of the instructions. */
    static PyObject *
    loopcore_accepted_over_four(int made, const struct sockaddr_in *peer)
    {
        const unsigned char *part = (const unsigned char *)&peer->sin_addr;
        char text[INET_ADDRSTRLEN], *end = text;
        PyObject *host, *port, *number, *address = NULL, *accepted = NULL;
        int i;
        for (i = 0; i < 4; i++) {
            if (i > 0) {
                *end++ = '.';
            }
            if (part[i] >= 100) {
                *end++ = (char)('0' + part[i] / 100);
            }
            if (part[i] >= 10) {
                *end++ = (char)('0' + part[i] / 10 % 10);
            }
            *end++ = (char)('0' + part[i] % 10);
        }
        host = PyUnicode_FromStringAndSize(text, end - text);
        port = PyLong_FromLong((long)ntohs(peer->sin_port));
        number = PyLong_FromLong(made);
        if (host != NULL && port != NULL && number != NULL) {
            address = PyTuple_Pack(2, host, port);
            accepted = address == NULL ? NULL : PyTuple_Pack(2, number, address);
        }
        Py_XDECREF(host);
        Py_XDECREF(port);
        Py_XDECREF(number);
        Py_XDECREF(address);
        return accepted;
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
            accepted = loopcore_accepted_over_four(made, &peer.four);
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
