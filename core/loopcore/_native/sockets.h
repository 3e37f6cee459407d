/* recv(2), send(2), sendmsg(2) and recvfrom(2) straight on a non-blocking descriptor, and for pipes read(2),
 * write(2) and writev(2). The contract of each function is the docstring in sockets.py; `sock` is for that module,
 * which does the work where `fd` is unknown to the kernel.
 *
 * For sockets the GIL is kept. None of these calls blocks, and each copies no more than the socket's buffers hold,
 * which takes microseconds. Releasing and taking the GIL costs two lock operations when no other thread wants it, and
 * when one does, up to the switch interval (5 ms) until this thread gets it back: far more than the call itself. For
 * pipes the GIL is released: another process may share the open file, a terminal for instance, and make it blocking.
 */

#ifndef LOOPCORE_SOCKETS_H
#define LOOPCORE_SOCKETS_H

#ifdef _WIN32
#error "loopcore's compiled transports need recv(2) and sendmsg(2); on Windows the pure build is used"
#endif

#include <Python.h>
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

#if defined(IOV_MAX) && IOV_MAX < 1024
#define LOOPCORE_VECTOR_LIMIT IOV_MAX
#else
#define LOOPCORE_VECTOR_LIMIT 1024
#endif

/* Results */

/* Whether the call that has just failed is to be repeated when the socket is ready; otherwise raise its error. */
static inline int
loopcore_would_block(void)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
        return 1;
    }
    PyErr_SetFromErrno(PyExc_OSError);
    return 0;
}

/* The result of recv(2) or send(2), with `errno`: -1 for "would block", -2 with an exception. */
static inline Py_ssize_t
loopcore_moved(ssize_t moved)
{
    return moved >= 0 ? moved : loopcore_would_block() ? -1 : -2;
}

/* The descriptor is not the kernel's (EBADF): it was closed, or belongs to a simulation, which replaces the methods of
 * sockets and the functions of `os`. The function of sockets.py then does the work, or raises. */
static PyObject *
loopcore_in_python(const char *name, PyObject *arguments)
{
    PyObject *module = arguments == NULL ? NULL : PyImport_ImportModule("loopcore._native.sockets");
    PyObject *function = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    PyObject *result = function == NULL ? NULL : PyObject_CallObject(function, arguments);
    Py_XDECREF(function);
    Py_XDECREF(module);
    Py_XDECREF(arguments);
    return result;
}

/* The same for a function that returns a number; -2 with an exception. */
static Py_ssize_t
loopcore_number_in_python(const char *name, PyObject *arguments)
{
    PyObject *result = loopcore_in_python(name, arguments);
    Py_ssize_t number = result == NULL ? -2 : PyLong_AsSsize_t(result);
    Py_XDECREF(result);
    return number == -1 && PyErr_Occurred() ? -2 : number;
}

/* Pipes */

static ssize_t
loopcore_read(int fd, void *buffer, size_t size)
{
    ssize_t got;
    Py_BEGIN_ALLOW_THREADS
    got = read(fd, buffer, size);
    Py_END_ALLOW_THREADS
    return got;
}

static ssize_t
loopcore_write(int fd, const struct iovec *parts, int count)
{
    ssize_t written;
    Py_BEGIN_ALLOW_THREADS
    written = count == 1 ? write(fd, parts->iov_base, parts->iov_len) : writev(fd, parts, count);
    Py_END_ALLOW_THREADS
    return written;
}

/* Receiving */

/* Up to this size bytes are received on the stack and copied: an allocation that is then cut costs more. */
#define LOOPCORE_SMALL_RECEIVE (16 * 1024)

static PyObject *
loopcore_receive(PyObject *sock, int fd, Py_ssize_t size, int is_pipe)
{
    char small[LOOPCORE_SMALL_RECEIVE];
    PyObject *received = NULL;
    ssize_t got;
    int error;
    if (size <= LOOPCORE_SMALL_RECEIVE) {
        got = is_pipe ? loopcore_read(fd, small, (size_t)size) : recv(fd, small, (size_t)size, 0);
        if (got >= 0) {
            return PyBytes_FromStringAndSize(small, got);
        }
    }
    else {
        received = PyBytes_FromStringAndSize(NULL, size);
        if (received == NULL) {
            return NULL;
        }
        char *room = PyBytes_AS_STRING(received);
        got = is_pipe ? loopcore_read(fd, room, (size_t)size) : recv(fd, room, (size_t)size, 0);
        if (got >= 0) {
            _PyBytes_Resize(&received, got); /* NULL, with an exception, if it fails */
            return received;
        }
    }
    error = errno;
    Py_XDECREF(received);
    errno = error;
    if (error == EBADF) {
        return loopcore_in_python("receive", Py_BuildValue("OinO", sock, fd, size, is_pipe ? Py_True : Py_False));
    }
    if (loopcore_would_block()) {
        Py_RETURN_NONE;
    }
    return NULL;
}

static Py_ssize_t
loopcore_receive_into(PyObject *sock, int fd, PyObject *buffer)
{
    Py_buffer view;
    ssize_t got;
    int error;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE) < 0) {
        return -2;
    }
    got = recv(fd, view.buf, (size_t)view.len, 0);
    error = errno;
    PyBuffer_Release(&view);
    errno = error;
    if (got < 0 && error == EBADF) {
        return loopcore_number_in_python("receive_into", Py_BuildValue("OiO", sock, fd, buffer));
    }
    return loopcore_moved(got);
}

static Py_ssize_t
loopcore_receive_behind(PyObject *sock, int fd, Py_ssize_t size, PyObject *unread)
{
    Py_ssize_t before = PyByteArray_GET_SIZE(unread), got;
    int is_unknown;
    if (PyByteArray_Resize(unread, before + size) < 0) {
        return -2;
    }
    got = recv(fd, PyByteArray_AS_STRING(unread) + before, (size_t)size, 0);
    is_unknown = got < 0 && errno == EBADF;
    got = is_unknown ? 0 : loopcore_moved(got);
    if (got != size) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        if (PyByteArray_Resize(unread, before + (got > 0 ? got : 0)) < 0) {
            Py_XDECREF(type);
            Py_XDECREF(error);
            Py_XDECREF(trace);
            return -2;
        }
        PyErr_Restore(type, error, trace);
    }
    if (is_unknown) {
        return loopcore_number_in_python("receive_behind", Py_BuildValue("OinO", sock, fd, size, unread));
    }
    return got;
}

static Py_ssize_t
loopcore_copy_into(PyObject *buffer, PyObject *data, Py_ssize_t position)
{
    Py_buffer from, to;
    Py_ssize_t count;
    if (PyObject_GetBuffer(data, &from, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    if (PyObject_GetBuffer(buffer, &to, PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&from);
        return -1;
    }
    count = from.len - position < to.len ? from.len - position : to.len;
    memcpy(to.buf, (char *)from.buf + position, (size_t)count);
    PyBuffer_Release(&to);
    PyBuffer_Release(&from);
    return count;
}

/* Sending. An item of a write queue is `bytes` or a contiguous memoryview that no other code can release. */

static inline void
loopcore_locate(PyObject *item, struct iovec *part)
{
    if (PyBytes_Check(item)) {
        part->iov_base = PyBytes_AS_STRING(item);
        part->iov_len = (size_t)PyBytes_GET_SIZE(item);
    }
    else {
        part->iov_base = PyMemoryView_GET_BUFFER(item)->buf;
        part->iov_len = (size_t)PyMemoryView_GET_BUFFER(item)->len;
    }
}

static inline Py_ssize_t
loopcore_send_one(PyObject *sock, int fd, PyObject *item, Py_ssize_t head, int is_pipe)
{
    struct iovec part;
    ssize_t sent;
    loopcore_locate(item, &part);
    part.iov_base = (char *)part.iov_base + head;
    part.iov_len -= (size_t)head;
    sent = is_pipe ? loopcore_write(fd, &part, 1) : send(fd, part.iov_base, part.iov_len, MSG_NOSIGNAL);
    if (sent < 0 && errno == EBADF) {
        return loopcore_number_in_python("send_one", Py_BuildValue("OiOnO", sock, fd, item, head,
                                                                   is_pipe ? Py_True : Py_False));
    }
    return loopcore_moved(sent);
}

static Py_ssize_t
loopcore_send_many(PyObject *sock, int fd, PyObject *queue, Py_ssize_t head, int is_pipe)
{
    struct iovec parts[LOOPCORE_VECTOR_LIMIT];
    struct msghdr message;
    Py_ssize_t count = PyList_GET_SIZE(queue), i;
    ssize_t sent;
    if (count > LOOPCORE_VECTOR_LIMIT) {
        count = LOOPCORE_VECTOR_LIMIT;
    }
    for (i = 0; i < count; i++) {
        loopcore_locate(PyList_GET_ITEM(queue, i), &parts[i]);
    }
    parts[0].iov_base = (char *)parts[0].iov_base + head;
    parts[0].iov_len -= (size_t)head;
    if (is_pipe) {
        sent = loopcore_write(fd, parts, (int)count);
    }
    else {
        memset(&message, 0, sizeof(message));
        message.msg_iov = parts;
        message.msg_iovlen = (int)count;
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    }
    if (sent < 0 && errno == EBADF) {
        return loopcore_number_in_python("send_many", Py_BuildValue("OiOnO", sock, fd, queue, head,
                                                                    is_pipe ? Py_True : Py_False));
    }
    return loopcore_moved(sent);
}

/* Datagrams of the Internet families. One call per datagram: recvmmsg(2) and sendmmsg(2) save the entry into the
 * kernel, which is 0.13 us of the 3.2 us that a datagram costs there both ways, and lose as much by their vectors. */

/* IPv4 and IPv6 count a datagram's bytes in 16 bits. */
#define LOOPCORE_INTERNET_DATAGRAM (64 * 1024)

/* (host, port), as the socket module writes them; inet_ntop(3) formats by printf(3), in ten times the instructions. */
static PyObject *
loopcore_address_of_four(const struct sockaddr_in *from)
{
    const unsigned char *part = (const unsigned char *)&from->sin_addr;
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
    port = PyLong_FromLong((long)ntohs(from->sin_port));
    if (host != NULL && port != NULL) {
        address = PyTuple_Pack(2, host, port);
    }
    Py_XDECREF(host);
    Py_XDECREF(port);
    return address;
}

/* The same with flow label and scope; None if the kernel has named no Internet address. */
static PyObject *
loopcore_address_of(const struct sockaddr_storage *from)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
    char host[INET6_ADDRSTRLEN];
    if (from->ss_family == AF_INET) {
        return loopcore_address_of_four((const struct sockaddr_in *)from);
    }
    if (from->ss_family != AF_INET6) {
        Py_RETURN_NONE;
    }
    if (inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host)) == NULL) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return Py_BuildValue("(siII)", host, (int)ntohs(six->sin6_port), (unsigned int)ntohl(six->sin6_flowinfo),
                         (unsigned int)six->sin6_scope_id);
}

static PyObject *
loopcore_receive_internet(PyObject *sock, int fd)
{
    char buffer[LOOPCORE_INTERNET_DATAGRAM];
    struct sockaddr_storage from;
    socklen_t length = sizeof(from);
    PyObject *data, *address, *received = NULL;
    ssize_t got;
    from.ss_family = AF_UNSPEC;
    got = recvfrom(fd, buffer, sizeof(buffer), 0, (struct sockaddr *)&from, &length);
    if (got < 0) {
        if (errno == EBADF) {
            return loopcore_in_python("receive_internet", Py_BuildValue("Oi", sock, fd));
        }
        if (loopcore_would_block()) {
            Py_RETURN_NONE;
        }
        return NULL;
    }
    data = PyBytes_FromStringAndSize(buffer, got);
    address = loopcore_address_of(&from);
    if (data != NULL && address != NULL) {
        received = PyTuple_Pack(2, data, address);
    }
    Py_XDECREF(data);
    Py_XDECREF(address);
    return received;
}

static int
loopcore_send_raw(PyObject *sock, int fd, PyObject *item, const struct sockaddr *to, socklen_t length,
                  PyObject *address)
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
    errno = error;
    if (sent < 0 && error == EBADF) {
        Py_ssize_t done = to == NULL
            ? loopcore_number_in_python("send_connected", Py_BuildValue("OiO", sock, fd, item))
            : loopcore_number_in_python("send_internet", Py_BuildValue("OiiOO", sock, fd, AF_INET, item, address));
        return done == -2 ? -1 : (int)done;
    }
    return sent >= 0 ? 1 : loopcore_would_block() ? 0 : -1;
}

static int
loopcore_send_connected(PyObject *sock, int fd, PyObject *item)
{
    return loopcore_send_raw(sock, fd, item, NULL, 0, NULL);
}

/* Convert (host, port) to `raw`: 1, or 0 if it is not a literal IPv4 address with a port, exactly. */
static int
loopcore_raw_four(PyObject *address, struct sockaddr_in *raw)
{
    PyObject *text, *number;
    const char *host;
    int overflow;
    long port;
    if (!PyTuple_CheckExact(address) || PyTuple_GET_SIZE(address) != 2) {
        return 0;
    }
    text = PyTuple_GET_ITEM(address, 0);
    number = PyTuple_GET_ITEM(address, 1);
    if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_ASCII(text) || !PyLong_CheckExact(number)) {
        return 0;
    }
    host = (const char *)PyUnicode_1BYTE_DATA(text); /* ends with a zero byte; inet_pton(3) stops at an earlier one */
    port = PyLong_AsLongAndOverflow(number, &overflow);
    memset(raw, 0, sizeof(*raw));
    raw->sin_family = AF_INET;
    raw->sin_port = htons((unsigned short)port);
    return !overflow && port >= 0 && port <= 0xFFFF && strlen(host) == (size_t)PyUnicode_GET_LENGTH(text)
           && inet_pton(AF_INET, host, &raw->sin_addr) == 1;
}

static int
loopcore_send_internet(PyObject *sock, int fd, int family, PyObject *item, PyObject *address)
{
    struct sockaddr_in raw;
    PyObject *sent;
    if (family == AF_INET && loopcore_raw_four(address, &raw)) {
        if (PySys_Audit("socket.sendto", "OO", sock, address) < 0) {
            return -1;
        }
        return loopcore_send_raw(sock, fd, item, (const struct sockaddr *)&raw, sizeof(raw), address);
    }
    sent = PyObject_CallMethod(sock, "sendto", "OO", item, address); /* names and errors: the socket module's */
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

#endif
