# The compiled acceptor's part of the sockets API: accept4(2), which also makes the connection non-blocking, and the
# peer's address as `socket.accept` returns it. For the Internet address families; the Python twin takes any.
#
# Result, as in `interpreted_accepting.py`: None for "not now", else the descriptor and the address. The twin needs
# `sock`; C needs only `fd`.

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

    typedef union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
        struct sockaddr_storage space;
    } loopcore_peer;

    /* The tuple of Py_BuildValue("(si)") for a result of inet_ntop(3), in a tenth of the instructions. */
    static PyObject *
    loopcore_address_of_four(const struct sockaddr_in *peer)
    {
        const unsigned char *part = (const unsigned char *)&peer->sin_addr;
        char text[INET_ADDRSTRLEN], *end = text;
        PyObject *host, *port, *address = NULL;
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
        if (host != NULL && port != NULL) {
            address = PyTuple_Pack(2, host, port);
        }
        Py_XDECREF(host);
        Py_XDECREF(port);
        return address;
    }

    static PyObject *
    loopcore_address_of(const loopcore_peer *peer)
    {
        char text[INET6_ADDRSTRLEN];
        if (peer->any.sa_family == AF_INET) {
            return loopcore_address_of_four(&peer->four);
        }
        if (inet_ntop(AF_INET6, &peer->six.sin6_addr, text, sizeof(text)) == NULL) {
            return PyErr_SetFromErrno(PyExc_OSError);
        }
        return Py_BuildValue("(siII)", text, (int)ntohs(peer->six.sin6_port), (unsigned int)ntohl(peer->six.sin6_flowinfo),
                             (unsigned int)peer->six.sin6_scope_id);
    }

    static PyObject *
    loopcore_accept_one(PyObject *sock, int fd)
    {
        loopcore_peer peer;
        socklen_t size = sizeof(peer);
        PyObject *number, *address, *accepted = NULL;
        int made;
        memset(&peer, 0, sizeof(peer));
        made = loopcore_accept4(fd, &peer.any, &size);
        if (made < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED) {
                Py_RETURN_NONE;
            }
            return PyErr_SetFromErrno(PyExc_OSError);
        }
        number = PyLong_FromLong(made);
        address = loopcore_address_of(&peer);
        if (number != NULL && address != NULL) {
            accepted = PyTuple_Pack(2, number, address);
        }
        Py_XDECREF(number);
        Py_XDECREF(address);
        if (accepted == NULL) {
            close(made);
        }
        return accepted;
    }

    static PyObject *
    loopcore_peer_of(int fd)
    {
        loopcore_peer peer;
        socklen_t size = sizeof(peer);
        memset(&peer, 0, sizeof(peer));
        if (getpeername(fd, &peer.any, &size) < 0) {
            Py_RETURN_NONE;
        }
        return loopcore_address_of(&peer);
    }
    """
    object accept_one "loopcore_accept_one" (object sock, int fd)
    # The peer's address of a connection; None if it was already reset.
    object peer_of "loopcore_peer_of" (int fd)
