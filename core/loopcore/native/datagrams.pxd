# What the compiled datagram driver takes from the sockets API: recvfrom(2) and send(2), straight on the descriptor.
# The GIL is kept, for the reasons in `sockets.pxd`. Results are those of `interpreted_datagrams.py`.

from cpython.object cimport PyObject

cdef extern from *:
    """
    #ifdef _WIN32
    #error "loopcore's compiled transports need recvfrom(2); on Windows the pure build is used"
    #endif
    #include <arpa/inet.h>
    #include <errno.h>
    #include <netinet/in.h>
    #include <sys/socket.h>
    #include <sys/types.h>

    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif

    #define LOOPCORE_DATAGRAM_LIMIT (256 * 1024)

    /* One buffer for all receives of the process: it is filled and copied from without letting go of the GIL. */
    static char loopcore_datagram_buffer[LOOPCORE_DATAGRAM_LIMIT];

    static inline int
    loopcore_datagram_would_block(void)
    {
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    }

    /* An Internet address as the socket module writes it: (host, port), for IPv6 also flow label and scope. */
    static PyObject *
    loopcore_internet_address(const struct sockaddr_storage *from)
    {
        char host[INET6_ADDRSTRLEN];
        if (from->ss_family == AF_INET) {
            const struct sockaddr_in *four = (const struct sockaddr_in *)from;
            if (inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host)) == NULL) {
                return PyErr_SetFromErrno(PyExc_OSError);
            }
            return Py_BuildValue("(si)", host, (int)ntohs(four->sin_port));
        }
        if (from->ss_family == AF_INET6) {
            const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
            if (inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host)) == NULL) {
                return PyErr_SetFromErrno(PyExc_OSError);
            }
            return Py_BuildValue("(siII)", host, (int)ntohs(six->sin6_port), (unsigned int)ntohl(six->sin6_flowinfo),
                                 (unsigned int)six->sin6_scope_id);
        }
        Py_RETURN_NONE;
    }

    static PyObject *
    loopcore_receive_internet(PyObject *sock, int fd)
    {
        struct sockaddr_storage from;
        socklen_t length = sizeof(from);
        PyObject *address, *data;
        ssize_t got;
        from.ss_family = AF_UNSPEC;
        got = recvfrom(fd, loopcore_datagram_buffer, LOOPCORE_DATAGRAM_LIMIT, 0, (struct sockaddr *)&from, &length);
        if (got < 0) {
            if (loopcore_datagram_would_block()) {
                Py_RETURN_NONE;
            }
            return PyErr_SetFromErrno(PyExc_OSError);
        }
        data = PyBytes_FromStringAndSize(loopcore_datagram_buffer, got);
        if (data == NULL) {
            return NULL;
        }
        address = loopcore_internet_address(&from);
        if (address == NULL) {
            Py_DECREF(data);
            return NULL;
        }
        return Py_BuildValue("(NN)", data, address);
    }

    static int
    loopcore_send_connected(PyObject *sock, int fd, PyObject *item)
    {
        Py_buffer view;
        ssize_t sent;
        int error;
        if (PyObject_GetBuffer(item, &view, PyBUF_SIMPLE) < 0) {
            return -1;
        }
        sent = send(fd, view.buf, (size_t)view.len, MSG_NOSIGNAL);
        error = errno;
        PyBuffer_Release(&view);
        if (sent >= 0) {
            return 1;
        }
        errno = error;
        if (loopcore_datagram_would_block()) {
            return 0;
        }
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    """
    object receive_internet "loopcore_receive_internet" (object sock, int fd)
    int send_connected "loopcore_send_connected" (object sock, int fd, object item) except -1
