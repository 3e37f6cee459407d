"""The Python twins of `sockets.pxd`, for the pure build: same names, same contracts.

None or -1 stand for "would block"; any other failure is an OSError. `sock` is a non-blocking socket and `fd` its
descriptor, which only the C side needs. An item of a write queue is `bytes` or a contiguous memoryview of bytes.

Thread: any; each thread receives into a separate buffer, because `recv_into` releases the GIL.
"""

import os
import socket
import threading
from typing import Any, Final

RECEIVE_LIMIT: Final = 120 * 1024
"""Bytes that one `receive` takes at most: below 128 KiB, from which on malloc uses mmap(2) (docs/adr/0011)."""

VECTOR_LIMIT: Final = min(1024, os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16)
"""Buffers that one `send_many` passes at most."""

_HAS_SENDMSG: Final = hasattr(socket.socket, "sendmsg")
"""Windows' sockets have no vectored send in Python; there the buffers are joined."""

JOIN_LIMIT: Final = 128 * 1024
"""Bytes that are joined at most. A larger first buffer is sent alone, without a copy."""


class _Buffers(threading.local):
    """One buffer per thread. A new block of this size for each message would be mapped and unmapped each time."""

    def __init__(self) -> None:
        self.view: memoryview = memoryview(bytearray(RECEIVE_LIMIT))


_buffers = _Buffers()


def receive(sock: socket.socket, fd: int, limit: int, expected: int = 0) -> bytes | BaseException | None:
    """Return the received bytes; b"" is the end of the stream, None "not yet", an exception the failure.

    At most `limit` bytes, or RECEIVE_LIMIT where that is less, or where `limit` is not positive. `expected` changes
    only the time that a receive takes in C.
    """
    view = _buffers.view
    try:
        return bytes(view[: sock.recv_into(view, limit if 0 < limit < RECEIVE_LIMIT else RECEIVE_LIMIT)])
    except (BlockingIOError, InterruptedError):
        return None
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as exc:
        return exc


def receive_into(sock: socket.socket, fd: int, buffer: Any) -> int:
    """Fill `buffer` and return the number of bytes; 0 is the end of the stream, -1 "not yet"."""
    try:
        return sock.recv_into(buffer)
    except (BlockingIOError, InterruptedError):
        return -1


def copy_into(buffer: Any, data: bytes | memoryview, position: int) -> int:
    """Copy `data` from `position` on into `buffer`, as much as fits; return the number of bytes."""
    with memoryview(buffer) as whole, whole.cast("B") as target:
        count = min(len(target), len(data) - position)
        with memoryview(data) as source, source[position : position + count] as part:
            target[:count] = part
    return count


def send_one(sock: socket.socket, fd: int, item: bytes | memoryview, head: int) -> int:
    """Send `item` from `head` on, and return how many bytes the kernel accepted, or -1."""
    try:
        return sock.send(memoryview(item)[head:] if head else item)
    except (BlockingIOError, InterruptedError):
        return -1


def send_many(sock: socket.socket, fd: int, queue: list[bytes | memoryview], head: int) -> int:
    """Send the queue's first items in one call, the first of them from `head` on; return as `send_one`."""
    if not _HAS_SENDMSG:
        return send_one(sock, fd, _joined(queue, head), 0)
    parts = queue[:VECTOR_LIMIT]
    if head:
        parts[0] = memoryview(parts[0])[head:]
    try:
        return sock.sendmsg(parts)
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
