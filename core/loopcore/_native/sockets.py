"""System calls on a non-blocking socket that do not wait: the functions of `sockets.h` in Python.

`sock` is a socket and `fd` its descriptor, which C uses instead if the kernel knows it. With `is_pipe` it is a pipe or
a device: only `fd` is used then. "Not now" is a result, None or -1 (for datagrams 0); any other failure is raised.
An item of a write queue is `bytes` or a contiguous memoryview of bytes.

Thread: any.
"""

import os
import socket
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

VECTOR_LIMIT: Final = min(1024, os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16)
"""Buffers that one `send_many` passes at most."""

_HAS_SENDMSG: Final = hasattr(socket.socket, "sendmsg")
"""Windows' sockets have no vectored send in Python; there the buffers are joined."""

JOIN_LIMIT: Final = 128 * 1024
"""Bytes that are joined at most. A larger first buffer is sent alone, without a copy."""

_INTERNET_DATAGRAM: Final = 64 * 1024


def receive(sock: socket.socket, fd: int, size: int, is_pipe: bool) -> bytes | None:
    """Return at most `size` received bytes; b"" is the end of the stream, None "not now"."""
    try:
        return os.read(fd, size) if is_pipe else sock.recv(size)
    except (BlockingIOError, InterruptedError):
        return None


def receive_into(sock: socket.socket, fd: int, buffer: "WriteableBuffer") -> int:
    """Fill `buffer` and return the number of bytes; 0 is the end of the stream, -1 "not now"."""
    try:
        return sock.recv_into(buffer)
    except (BlockingIOError, InterruptedError):
        return -1


def receive_behind(sock: socket.socket, fd: int, size: int, unread: bytearray) -> int:
    """Append at most `size` received bytes to `unread`; return as `receive_into`. Raises BufferError if exported."""
    unread += bytes(1)  # raises before anything is received
    del unread[-1:]
    received = receive(sock, fd, size, False)
    if received is None:
        return -1
    unread += received
    return len(received)


def copy_into(buffer: "WriteableBuffer", data: bytes | memoryview, position: int) -> int:
    """Copy `data` from `position` on into `buffer`, as much as fits; return the number of bytes."""
    with memoryview(buffer) as whole, whole.cast("B") as target:
        count = min(len(target), len(data) - position)
        with memoryview(data) as source, source[position : position + count] as part:
            target[:count] = part
    return count


def send_one(sock: socket.socket, fd: int, item: bytes | memoryview, head: int, is_pipe: bool) -> int:
    """Send `item` from `head` on; return how many bytes the kernel accepted, or -1 for "not now"."""
    part = memoryview(item)[head:] if head else item
    try:
        return os.write(fd, part) if is_pipe else sock.send(part)
    except (BlockingIOError, InterruptedError):
        return -1


def send_many(sock: socket.socket, fd: int, queue: list[bytes | memoryview], head: int, is_pipe: bool) -> int:
    """Send the queue's first items in one call, the first of them from `head` on; return as `send_one`."""
    if not _HAS_SENDMSG:
        return send_one(sock, fd, _joined(queue, head), 0, is_pipe)
    parts = queue[:VECTOR_LIMIT]
    if head:
        parts[0] = memoryview(parts[0])[head:]
    try:
        return os.writev(fd, parts) if is_pipe else sock.sendmsg(parts)
    except (BlockingIOError, InterruptedError):
        return -1


def _joined(queue: list[bytes | memoryview], head: int) -> bytes | memoryview:
    """Return the queue's first items as one, the first of them from `head` on."""
    first = memoryview(queue[0])[head:]
    parts, size = [first], len(first)
    for item in queue[1:]:
        size += len(item)
        if size > JOIN_LIMIT:
            break
        parts.append(memoryview(item))
    return first if len(parts) == 1 else b"".join(parts)


def receive_internet(sock: socket.socket, fd: int) -> tuple[bytes, Any] | None:
    """Return a datagram, perhaps empty, and its sender; None if there is none. For AF_INET and AF_INET6."""
    try:
        return sock.recvfrom(_INTERNET_DATAGRAM)
    except (BlockingIOError, InterruptedError):
        return None


def send_connected(sock: socket.socket, fd: int, item: "ReadableBuffer") -> int:
    """Send the bytes-like `item` to the socket's connected peer; 0 means that the kernel has no room for it now."""
    try:
        sock.send(item)
    except (BlockingIOError, InterruptedError):
        return 0
    return 1


def send_internet(sock: socket.socket, fd: int, family: int, item: "ReadableBuffer", address: Any) -> int:
    """Send the bytes-like `item` to `address`; return as `send_connected`. `family` is the socket's."""
    try:
        sock.sendto(item, address)
    except (BlockingIOError, InterruptedError):
        return 0
    return 1
