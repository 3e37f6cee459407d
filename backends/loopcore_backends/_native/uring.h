/* io_uring(7): its three system calls, by number, and memory shared with the kernel. uring.py has the same in Python.
 *
 * Nothing of <linux/io_uring.h> is used: the header of the machine that compiles may be older than the kernel that
 * runs. The numbers of the calls are the same on every supported architecture (little-endian, 64 bits); off Linux the
 * calls return ENOSYS. Only an `enter` that may block releases the GIL: the sends and receives of one that may not are
 * as short as those in core's sockets.h. Results below 0 are -errno. */

#ifndef LOOPCORE_URING_H
#define LOOPCORE_URING_H

#include <Python.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline long long
loopcore_uring_result(long result)
{
    return result < 0 ? -(long long)errno : (long long)result;
}

static inline long long
loopcore_uring_setup(unsigned int entries, unsigned long long parameters)
{
    return loopcore_uring_result(syscall(425, entries, (void *)(uintptr_t)parameters));
}

static inline long long
loopcore_uring_enter(int fd, unsigned int submit, unsigned int complete, unsigned int flags,
                     unsigned long long argument, size_t size)
{
    long result;
    if (complete == 0) {
        return loopcore_uring_result(syscall(426, fd, submit, 0, flags, (void *)(uintptr_t)argument, size));
    }
    int error;
    Py_BEGIN_ALLOW_THREADS
    result = syscall(426, fd, submit, complete, flags, (void *)(uintptr_t)argument, size);
    error = errno;
    Py_END_ALLOW_THREADS
    return result < 0 ? -(long long)error : (long long)result;
}

static inline long long
loopcore_uring_register(int fd, unsigned int opcode, unsigned long long argument, unsigned int count)
{
    return loopcore_uring_result(syscall(427, fd, opcode, (void *)(uintptr_t)argument, count));
}

static inline long long
loopcore_uring_map(int fd, size_t length, long long offset)
{
    void *where = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)offset);
    return where == MAP_FAILED ? -(long long)errno : (long long)(uintptr_t)where;
}

static inline void
loopcore_uring_unmap(unsigned long long address, size_t length)
{
    munmap((void *)(uintptr_t)address, length);
}

/* Internet addresses in the socket module's form; None for other families. */
static inline PyObject *
loopcore_uring_internet(unsigned long long where)
{
    char host[INET6_ADDRSTRLEN];
    const struct sockaddr *from = (const struct sockaddr *)(uintptr_t)where;
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)from;
        if (inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host)) != NULL) {
            return Py_BuildValue("(si)", host, (int)ntohs(four->sin_port));
        }
    }
    if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
        if (inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host)) != NULL) {
            return Py_BuildValue("(siII)", host, (int)ntohs(six->sin6_port),
                                 (unsigned int)ntohl(six->sin6_flowinfo), (unsigned int)six->sin6_scope_id);
        }
    }
    Py_RETURN_NONE;
}

static inline int
loopcore_uring_family(int fd)
{
    int family = -1;
    socklen_t size = sizeof(family);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0 ? -1 : family;
}
#else
#define loopcore_uring_setup(entries, parameters) (-(long long)ENOSYS)
#define loopcore_uring_enter(fd, submit, complete, flags, argument, size) (-(long long)ENOSYS)
#define loopcore_uring_register(fd, opcode, argument, count) (-(long long)ENOSYS)
#define loopcore_uring_map(fd, length, offset) (-(long long)ENOSYS)
#define loopcore_uring_unmap(address, length) ((void)0)
#define loopcore_uring_internet(where) (Py_NewRef(Py_None))
#define loopcore_uring_family(fd) (-1)
#endif

static inline long long
loopcore_uring_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Rounded up, so that a wait never ends early; more than thirty years is cut off. */
static inline long long
loopcore_uring_to_ns(double seconds)
{
    return (long long)ceil((seconds < 1e9 ? seconds : 1e9) * 1e9);
}

#define loopcore_uring_words16(address, count) ((unsigned short *)(uintptr_t)(address))
#define loopcore_uring_words32(address, count) ((unsigned int *)(uintptr_t)(address))
#define loopcore_uring_words64(address, count) ((unsigned long long *)(uintptr_t)(address))
#define loopcore_uring_ints32(address, count) ((int *)(uintptr_t)(address))

#if defined(__GNUC__) || defined(__clang__)
#define loopcore_uring_load(where) __atomic_load_n(where, __ATOMIC_ACQUIRE)
#define loopcore_uring_store(where, value) __atomic_store_n(where, (unsigned int)(value), __ATOMIC_RELEASE)
#define loopcore_uring_store16(where, value) __atomic_store_n(where, (unsigned short)(value), __ATOMIC_RELEASE)
#else
#define loopcore_uring_load(where) (*(where))
#define loopcore_uring_store(where, value) (*(where) = (unsigned int)(value))
#define loopcore_uring_store16(where, value) (*(where) = (unsigned short)(value))
#endif

/* Return an object that keeps a buffer in place: a `bytes` itself, for others a view that none can release. */
static inline PyObject *
loopcore_uring_hold(PyObject *item)
{
    PyObject *view;
    if (PyBytes_CheckExact(item)) {
        Py_INCREF(item);
        return item;
    }
    view = PyMemoryView_FromObject(item);
    if (view != NULL && !PyBuffer_IsContiguous(PyMemoryView_GET_BUFFER(view), 'C')) {
        Py_DECREF(view);
        PyErr_SetString(PyExc_BufferError, "a buffer that is sent must be contiguous");
        return NULL;
    }
    return view;
}

static inline unsigned long long
loopcore_uring_address(PyObject *held)
{
    Py_buffer view;
    if (PyBytes_CheckExact(held)) {
        return (uintptr_t)PyBytes_AS_STRING(held);
    }
    if (PyMemoryView_Check(held)) {
        return (uintptr_t)PyMemoryView_GET_BUFFER(held)->buf;
    }
    if (PyObject_GetBuffer(held, &view, PyBUF_WRITABLE) < 0) {
        return 0;
    }
    void *where = view.buf;
    PyBuffer_Release(&view);
    return (uintptr_t)where;
}

static inline Py_ssize_t
loopcore_uring_length(PyObject *held)
{
    return PyBytes_CheckExact(held) ? PyBytes_GET_SIZE(held) : PyMemoryView_GET_BUFFER(held)->len;
}

/* Memory for the kernel to fill: a `bytes` that no other code has seen yet. */
static inline PyObject *
loopcore_uring_room(Py_ssize_t size)
{
    return PyBytes_FromStringAndSize(NULL, size);
}

static inline PyObject *
loopcore_uring_cut(PyObject *room, Py_ssize_t size)
{
    if (size == PyBytes_GET_SIZE(room)) {
        Py_INCREF(room);
        return room;
    }
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(room), size);
}

static inline PyObject *
loopcore_uring_take(unsigned long long address, Py_ssize_t size)
{
    return PyBytes_FromStringAndSize((const char *)(uintptr_t)address, size);
}

static inline void
loopcore_uring_poke(unsigned long long address, PyObject *data)
{
    memcpy((void *)(uintptr_t)address, PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
}

#endif
