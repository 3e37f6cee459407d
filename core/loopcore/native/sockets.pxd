# The compiled transports' part of the sockets API: recv(2), send(2), sendmsg(2), straight on the descriptor.
#
# The GIL is kept. These calls never block (the descriptors are non-blocking); they copy no more than the socket's
# buffers hold, which takes microseconds. Releasing and taking the GIL costs two lock operations when no other thread
# wants it, and when one does, up to the switch interval (5 ms) until this thread gets it back: far more than the call
# itself.
#
# Results, as in `interpreted_sockets.py`: None or -1 stand for "would block"; any other failure is an OSError, which
# `receive` returns and `try_send_one` leaves pending: their callers set up no exception handler. The Python twins need
# `sock`; C needs only `fd`.

from cpython.object cimport PyObject

from loopcore.native.messages cimport keep_spare  # the C code below needs its definitions

cdef extern from *:
    """
    #ifdef _WIN32
    #error "loopcore's compiled transports need recv(2) and sendmsg(2); on Windows the pure build is used"
    #endif
    #include <errno.h>
    #include <limits.h>
    #include <string.h>
    #include <sys/socket.h>
    #include <sys/types.h>
    #include <sys/uio.h>

    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif

    #if defined(IOV_MAX) && IOV_MAX < 1024
    #define LOOPCORE_VECTOR_LIMIT IOV_MAX
    #else
    #define LOOPCORE_VECTOR_LIMIT 1024
    #endif

    /* One buffer for all receives of the process: it is filled and copied from without releasing the GIL. */
    static char loopcore_receive_buffer[LOOPCORE_RECEIVE_LIMIT];

    static inline int
    loopcore_would_block(void)
    {
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    }

    /* Fetch and clear the pending exception. */
    static PyObject *
    loopcore_take_exception(void)
    {
    #if PY_VERSION_HEX >= 0x030C0000
        return PyErr_GetRaisedException();
    #else
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        PyErr_NormalizeException(&type, &error, &trace);
        if (trace != NULL) {
            PyException_SetTraceback(error, trace);
        }
        Py_XDECREF(type);
        Py_XDECREF(trace);
        return error;
    #endif
    }

    static PyObject *
    loopcore_nothing_received(void)
    {
        if (loopcore_would_block()) {
            Py_RETURN_NONE;
        }
        PyErr_SetFromErrno(PyExc_OSError);
        return loopcore_take_exception();
    }

    /* As readv(2), or recv(2) where that suffices. Unless `*cut` is negative, it is set if the receive ended after data
     * with descriptors or a sender's credentials, as on Unix sockets; this call has no buffer for them. */
    static inline ssize_t
    loopcore_read(int fd, struct iovec *parts, int count, int *cut)
    {
        struct msghdr message;
        ssize_t got;
        if (*cut < 0) {
            return count == 1 ? recv(fd, parts[0].iov_base, parts[0].iov_len, 0) : readv(fd, parts, count);
        }
        memset(&message, 0, sizeof(message));
        message.msg_iov = parts;
        message.msg_iovlen = count;
        got = recvmsg(fd, &message, 0);
        *cut = got > 0 && (message.msg_flags & MSG_CTRUNC);
        return got;
    }

    /* Receive the same number of bytes as the last time, without copying them; if there are more, they still make one
     * message. After two receives of that size, one more byte is requested: recv(2) is cheaper than readv(2), and that
     * byte shows that there is more, for which the next receive uses readv(2). The byte fits into the `bytes`, in place
     * of their terminating zero. */
    static PyObject *
    loopcore_receive_expected(int fd, size_t most, size_t expected, int steady, int *cut)
    {
        PyObject *received = loopcore_make_bytes((Py_ssize_t)expected), *whole;
        struct iovec parts[2];
        char *rest = loopcore_receive_buffer;
        ssize_t got;
        if (received == NULL) {
            return loopcore_take_exception();
        }
        parts[0].iov_base = PyBytes_AS_STRING(received);
        parts[0].iov_len = expected;
        if (steady) {
            rest = PyBytes_AS_STRING(received) + expected;
            parts[0].iov_len += expected < most;
            got = loopcore_read(fd, parts, 1, cut);
        }
        else {
            parts[1].iov_base = rest;
            parts[1].iov_len = most - expected;
            got = loopcore_read(fd, parts, 2, cut);
        }
        if (got < 0) {
            int error = errno;
            Py_DECREF(received);
            errno = error;
            return loopcore_nothing_received();
        }
        if ((size_t)got == expected) {
            return received;
        }
        if ((size_t)got < expected) {
            return _PyBytes_Resize(&received, got) < 0 ? loopcore_take_exception() : received;
        }
        whole = PyBytes_FromStringAndSize(NULL, got);
        if (whole != NULL) {
            memcpy(PyBytes_AS_STRING(whole), PyBytes_AS_STRING(received), expected);
            memcpy(PyBytes_AS_STRING(whole) + expected, rest, (size_t)got - expected);
        }
        Py_DECREF(received);
        return whole == NULL ? loopcore_take_exception() : whole;
    }

    /* Receive into the large buffer. Half of it or less is copied: a kept message wastes at most its own size. */
    static PyObject *
    loopcore_receive_roomy(int fd, size_t most, PyObject *room, int *cut)
    {
        struct iovec part = {PyBytes_AS_STRING(room), most};
        PyObject *received;
        ssize_t got = loopcore_read(fd, &part, 1, cut);
        if (got < 0) {
            return loopcore_nothing_received();
        }
        if (got > LOOPCORE_HALF_ROOM) {
            Py_SET_SIZE(room, got);
            PyBytes_AS_STRING(room)[got] = 0;
            LOOPCORE_FORGET_HASH(room);
            return Py_NewRef(room);
        }
        received = loopcore_make_bytes(got);
        if (received == NULL) {
            return loopcore_take_exception();
        }
        memcpy(PyBytes_AS_STRING(received), PyBytes_AS_STRING(room), (size_t)got);
        return received;
    }

    static inline PyObject *
    loopcore_receive(int fd, Py_ssize_t limit, Py_ssize_t expected, int steady, Py_ssize_t peak, int *cut)
    {
        /* As an unsigned number, a negative limit is a large one. */
        size_t most = (size_t)limit - 1 < LOOPCORE_RECEIVE_LIMIT ? (size_t)limit : LOOPCORE_RECEIVE_LIMIT;
        struct iovec part;
        ssize_t got;
        if (peak >= LOOPCORE_ROOMY_FROM && (!steady || peak > LOOPCORE_HALF_ROOM)) {
            PyObject *room = loopcore_free_room();
            if (room != NULL) {
                return loopcore_receive_roomy(fd, most, room, cut);
            }
        }
        if (expected > 0 && (size_t)expected <= most) {
            return loopcore_receive_expected(fd, most, (size_t)expected, steady, cut);
        }
        part.iov_base = loopcore_receive_buffer;
        part.iov_len = most;
        got = loopcore_read(fd, &part, 1, cut);
        if (got >= 0) {
            PyObject *received = loopcore_make_bytes(got);
            if (received == NULL) {
                return loopcore_take_exception();
            }
            memcpy(PyBytes_AS_STRING(received), loopcore_receive_buffer, (size_t)got);
            return received;
        }
        return loopcore_nothing_received();
    }

    /* The buffer of a memoryview, as PyObject_GetBuffer returns it, without an export: it cannot be released during the
     * call, because the GIL is kept. NULL if PyObject_GetBuffer would refuse, or must be used. */
    static inline Py_buffer *
    loopcore_view_of(PyObject *buffer)
    {
    #ifndef Py_GIL_DISABLED
        if (PyMemoryView_Check(buffer)) {
            PyMemoryViewObject *seen = (PyMemoryViewObject *)buffer;
            int refused = _Py_MEMORYVIEW_RELEASED;
    #ifdef _Py_MEMORYVIEW_RESTRICTED
            refused |= _Py_MEMORYVIEW_RESTRICTED;
    #endif
            if (!(seen->flags & refused) && !(seen->mbuf->flags & _Py_MANAGED_BUFFER_RELEASED) && !seen->view.readonly
                && (seen->flags & (_Py_MEMORYVIEW_C | _Py_MEMORYVIEW_SCALAR))) {
                return &seen->view;
            }
        }
    #endif
        return NULL;
    }

    /* The result of recv(2) or send(2), with `errno`: -1 for "would block", -2 with an exception pending. */
    static inline Py_ssize_t
    loopcore_moved(ssize_t moved)
    {
        if (moved >= 0) {
            return moved;
        }
        if (loopcore_would_block()) {
            return -1;
        }
        PyErr_SetFromErrno(PyExc_OSError);
        return -2;
    }

    static inline Py_ssize_t
    loopcore_receive_into(PyObject *sock, int fd, PyObject *buffer)
    {
        Py_buffer view, *seen = loopcore_view_of(buffer);
        ssize_t got;
        int error;
        if (seen != NULL) {
            got = recv(fd, seen->buf, (size_t)seen->len, 0);
            error = errno;
        }
        else {
            if (PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE) < 0) {
                return -2;
            }
            got = recv(fd, view.buf, (size_t)view.len, 0);
            error = errno;
            PyBuffer_Release(&view);
        }
        errno = error;
        return loopcore_moved(got);
    }

    /* Append received data to a bytearray. -1: no data, -2: an exception is pending, -3: it cannot grow. */
    static Py_ssize_t
    loopcore_receive_behind(int fd, Py_ssize_t limit, PyObject *unread, int *cut)
    {
        size_t most = (size_t)limit - 1 < LOOPCORE_RECEIVE_LIMIT ? (size_t)limit : LOOPCORE_RECEIVE_LIMIT;
        Py_ssize_t before = PyByteArray_GET_SIZE(unread);
        struct iovec part;
        ssize_t got;
        int error;
        if (PyByteArray_Resize(unread, before + (Py_ssize_t)most) < 0) {
            PyErr_Clear();
            return -3;
        }
        part.iov_base = PyByteArray_AS_STRING(unread) + before;
        part.iov_len = most;
        got = loopcore_read(fd, &part, 1, cut);
        error = errno;
        if (PyByteArray_Resize(unread, before + (got > 0 ? got : 0)) < 0) {
            PyErr_Clear();  /* no memory to shrink it: only its size is reduced */
            Py_SET_SIZE(unread, before + (got > 0 ? got : 0));
            PyByteArray_AS_STRING(unread)[PyByteArray_GET_SIZE(unread)] = 0;
        }
        errno = error;
        return loopcore_moved(got);
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

    /* An item of a write queue is `bytes` or a contiguous memoryview that no other code can release. */
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
    loopcore_send_one(PyObject *sock, int fd, PyObject *item, Py_ssize_t head)
    {
        struct iovec part;
        loopcore_locate(item, &part);
        return loopcore_moved(send(fd, (char *)part.iov_base + head, part.iov_len - (size_t)head, MSG_NOSIGNAL));
    }

    static Py_ssize_t
    loopcore_send_many(PyObject *sock, int fd, PyObject *queue, Py_ssize_t head)
    {
        struct iovec parts[LOOPCORE_VECTOR_LIMIT];
        struct msghdr message;
        Py_ssize_t count = PyList_GET_SIZE(queue), i;
        if (count > LOOPCORE_VECTOR_LIMIT) {
            count = LOOPCORE_VECTOR_LIMIT;
        }
        for (i = 0; i < count; i++) {
            loopcore_locate(PyList_GET_ITEM(queue, i), &parts[i]);
        }
        parts[0].iov_base = (char *)parts[0].iov_base + head;
        parts[0].iov_len -= (size_t)head;
        memset(&message, 0, sizeof(message));
        message.msg_iov = parts;
        message.msg_iovlen = (int)count;
        return loopcore_moved(sendmsg(fd, &message, MSG_NOSIGNAL));
    }
    """
    object receive "loopcore_receive" (int fd, Py_ssize_t limit, Py_ssize_t expected, int steady, Py_ssize_t peak, int *cut)
    # -1: no data; -2: an exception is pending.
    Py_ssize_t try_receive_into "loopcore_receive_into" (PyObject *sock, int fd, PyObject *buffer) noexcept
    Py_ssize_t receive_behind "loopcore_receive_behind" (int fd, Py_ssize_t limit, PyObject *unread, int *cut) noexcept
    Py_ssize_t copy_into "loopcore_copy_into" (object buffer, object data, Py_ssize_t position) except -1
    Py_ssize_t send_one "loopcore_send_one" (object sock, int fd, object item, Py_ssize_t head) except -2
    Py_ssize_t try_send_one "loopcore_send_one" (PyObject *sock, int fd, PyObject *item, Py_ssize_t head) noexcept
    Py_ssize_t send_many "loopcore_send_many" (object sock, int fd, list queue, Py_ssize_t head) except -2
