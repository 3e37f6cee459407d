# The compiled datagram driver's part of the sockets API: recvfrom(2), send(2) and sendto(2), straight on the
# descriptor. The GIL is kept, for the reasons in `sockets.pxd`, and the error of a receive is returned, as there.
#
# One call per datagram: recvmmsg(2) and sendmmsg(2) save the entry into the kernel, which is 0.13 us of the 3.2 us that
# a datagram costs there both ways, and lose as much by their vectors (8 per call on Linux 6.18: 0.56 us for each
# received against 0.53, 2.7 us for each sent against 2.65).

from cpython.object cimport PyObject

from loopcore.native.sockets cimport keep_spare  # the C code below needs its definitions

cdef extern from *:
    """
    #ifdef _WIN32
    #error "loopcore's compiled transports need recvfrom(2); on Windows the pure build is used"
    #endif
    #include <arpa/inet.h>
    #include <errno.h>
    #include <netinet/in.h>
    #include <string.h>
    #include <sys/socket.h>
    #include <sys/types.h>

    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif

    #define LOOPCORE_DATAGRAM_LIMIT (256 * 1024)

    /* One buffer for all receives of the process: it is filled and copied from without releasing the GIL. */
    static char loopcore_datagram_buffer[LOOPCORE_DATAGRAM_LIMIT];

    /* An Internet address in the socket module's form: (host, port), for IPv6 also flow label and scope. */
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

    /* The most recent addresses, each with its tuple: peers send again, and a tuple with its two objects costs more
     * than the rest of a receive. Each hash has two places, the one used last in front: two peers that share a hash do
     * not evict each other. */
    #define LOOPCORE_KNOWN_HASHES 64

    typedef struct {
        struct sockaddr_in6 raw; /* large enough for both families, and compared in full: zero beyond the address */
        PyObject *written;
    } loopcore_known_address;

    static loopcore_known_address loopcore_known[LOOPCORE_KNOWN_HASHES][2];
    static loopcore_known_address *loopcore_latest;

    static PyObject *
    loopcore_written_address(const struct sockaddr_storage *from)
    {
        struct sockaddr_in6 raw;
        loopcore_known_address *known, first;
        PyObject *written;
        unsigned int hash;
        memset(&raw, 0, sizeof(raw));
        if (from->ss_family == AF_INET) {
            const struct sockaddr_in *four = (const struct sockaddr_in *)from;
            ((struct sockaddr_in *)&raw)->sin_family = AF_INET;
            ((struct sockaddr_in *)&raw)->sin_port = four->sin_port;
            ((struct sockaddr_in *)&raw)->sin_addr = four->sin_addr;
            hash = ntohs(four->sin_port) + 31 * ntohl(four->sin_addr.s_addr);
        }
        else if (from->ss_family == AF_INET6) {
            memcpy(&raw, from, sizeof(raw));
            hash = ntohs(raw.sin6_port) + 31 * raw.sin6_addr.s6_addr[15];
        }
        else {
            return loopcore_internet_address(from);
        }
        known = loopcore_known[hash % LOOPCORE_KNOWN_HASHES];
        if (known->written == NULL || memcmp(&known->raw, &raw, sizeof(raw)) != 0) {
            first = known[0];
            known[0] = known[1];
            known[1] = first;
            if (known->written == NULL || memcmp(&known->raw, &raw, sizeof(raw)) != 0) {
                written = loopcore_internet_address(from);
                if (written == NULL) {
                    return NULL;
                }
                known->raw = raw;
                Py_XSETREF(known->written, written);
            }
        }
        loopcore_latest = known;
        Py_INCREF(known->written);
        return known->written;
    }

    /* Convert the address tuple `written` to `raw` and return its length; 0 if this takes the socket module. */
    static socklen_t
    loopcore_raw_address(PyObject *written, int family, struct sockaddr_in6 *raw)
    {
        struct sockaddr_in *four = (struct sockaddr_in *)raw;
        const char *host;
        Py_ssize_t size;
        long port;
        if (loopcore_latest != NULL && loopcore_latest->written == written) {
            *raw = loopcore_latest->raw;
            if (((struct sockaddr *)raw)->sa_family == family) {
                return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
            }
        }
        if (family != AF_INET || !PyTuple_CheckExact(written) || PyTuple_GET_SIZE(written) != 2
            || !PyUnicode_CheckExact(PyTuple_GET_ITEM(written, 0)) || !PyLong_CheckExact(PyTuple_GET_ITEM(written, 1))) {
            return 0;
        }
        host = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(written, 0), &size);
        if (host == NULL) {
            PyErr_Clear();
            return 0;
        }
        port = PyLong_AsLong(PyTuple_GET_ITEM(written, 1));
        if (port == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
        if (strlen(host) != (size_t)size) {
            return 0; /* a null character, at which inet_pton(3) would stop */
        }
        memset(four, 0, sizeof(*four));
        four->sin_family = AF_INET;
        four->sin_port = htons((unsigned short)port);
        return port >= 0 && port <= 65535 && inet_pton(AF_INET, host, &four->sin_addr) == 1 ? sizeof(*four) : 0;
    }

    /* The sender of the datagram that was received last. */
    static PyObject *loopcore_sender;

    static PyObject *
    loopcore_receive_internet(int fd)
    {
        struct sockaddr_storage from;
        socklen_t length = sizeof(from);
        PyObject *address, *data;
        ssize_t got;
        from.ss_family = AF_UNSPEC;
        got = recvfrom(fd, loopcore_datagram_buffer, LOOPCORE_DATAGRAM_LIMIT, 0, (struct sockaddr *)&from, &length);
        if (got < 0) {
            return loopcore_nothing_received();
        }
        /* Copied first: making an address may start a collection, whose finalizers may let other threads receive. */
        data = loopcore_make_bytes(got);
        if (data == NULL) {
            return loopcore_take_exception();
        }
        memcpy(PyBytes_AS_STRING(data), loopcore_datagram_buffer, (size_t)got);
        address = loopcore_written_address(&from);
        if (address == NULL) {
            Py_DECREF(data);
            return loopcore_take_exception();
        }
        Py_XSETREF(loopcore_sender, address);
        return data;
    }

    static inline PyObject *
    loopcore_take_sender(void)
    {
        PyObject *sender = loopcore_sender;
        loopcore_sender = NULL;
        return sender;
    }

    static int
    loopcore_send_raw(int fd, PyObject *item, const struct sockaddr *to, socklen_t length)
    {
        Py_buffer view;
        ssize_t sent;
        int error;
        if (PyObject_GetBuffer(item, &view, PyBUF_SIMPLE) < 0) {
            return -1;
        }
        sent = sendto(fd, view.buf, (size_t)view.len, MSG_NOSIGNAL, to, length);
        error = errno;
        PyBuffer_Release(&view);
        if (sent >= 0) {
            return 1;
        }
        errno = error;
        if (loopcore_would_block()) {
            return 0;
        }
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }

    static int
    loopcore_send_connected(PyObject *sock, int fd, PyObject *item)
    {
        return loopcore_send_raw(fd, item, NULL, 0);
    }

    static int
    loopcore_send_internet(PyObject *sock, int fd, int family, PyObject *item, PyObject *address)
    {
        struct sockaddr_in6 raw;
        PyObject *sent;
        socklen_t length = loopcore_raw_address(address, family, &raw);
        if (length != 0) {
            if (PySys_Audit("socket.sendto", "OO", sock, address) < 0) {
                return -1;
            }
            return loopcore_send_raw(fd, item, (const struct sockaddr *)&raw, length);
        }
        sent = PyObject_CallMethod(sock, "sendto", "OO", item, address); /* names, errors: left to the socket module */
        if (sent != NULL) {
            Py_DECREF(sent);
            return 1;
        }
        if (PyErr_ExceptionMatches(PyExc_BlockingIOError) || PyErr_ExceptionMatches(PyExc_InterruptedError)) {
            PyErr_Clear();
            return 0;
        }
        return -1;
    }
    """
    # Returns bytes, whose sender `take_sender` returns, once; None, or an exception.
    object receive_internet "loopcore_receive_internet" (int fd)
    object take_sender "loopcore_take_sender" ()
    int send_connected "loopcore_send_connected" (object sock, int fd, object item) except -1
    int send_internet "loopcore_send_internet" (object sock, int fd, int family, object item, object address) except -1
