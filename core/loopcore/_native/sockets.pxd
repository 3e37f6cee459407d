cdef extern from "loopcore/_native/sockets.h":
    bytes receive "loopcore_receive" (object sock, int fd, Py_ssize_t size, bint is_pipe)
    Py_ssize_t receive_into "loopcore_receive_into" (object sock, int fd, object buffer) except -2
    Py_ssize_t receive_behind "loopcore_receive_behind" (
        object sock, int fd, Py_ssize_t size, bytearray unread
    ) except -2
    Py_ssize_t copy_into "loopcore_copy_into" (object buffer, object data, Py_ssize_t position) except -1
    Py_ssize_t send_one "loopcore_send_one" (
        object sock, int fd, object item, Py_ssize_t head, bint is_pipe
    ) except -2
    Py_ssize_t send_many "loopcore_send_many" (
        object sock, int fd, list queue, Py_ssize_t head, bint is_pipe
    ) except -2
    object receive_internet "loopcore_receive_internet" (object sock, int fd)
    int send_connected "loopcore_send_connected" (object sock, int fd, object item) except -1
    int send_internet "loopcore_send_internet" (object sock, int fd, int family, object item, object address) except -1
