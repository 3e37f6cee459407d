"""Receiving datagrams, in Python. `sock` is a non-blocking socket, `fd` its descriptor.

Thread: any; each thread receives into a buffer of its own, because `recvfrom_into` lets go of the GIL.
"""

import socket
import threading
from typing import Any, Final

DATAGRAM_LIMIT: Final = 256 * 1024
"""Bytes of a datagram that are kept; the number is asyncio's. UDP's own limit is 65,507 (IPv4) and 65,527 (IPv6)."""


class _Buffers(threading.local):
    """One buffer a thread: `recvfrom` would get 256 KiB from mmap(2) for each datagram, and give nearly all back."""

    def __init__(self) -> None:
        self.view: memoryview = memoryview(bytearray(DATAGRAM_LIMIT))


_buffers = _Buffers()


def receive_from(sock: socket.socket, fd: int) -> tuple[bytes, Any] | None:
    """Return a datagram, perhaps empty, and who sent it; None if there is none. Raises OSError."""
    view = _buffers.view
    try:
        size, address = sock.recvfrom_into(view)
    except (BlockingIOError, InterruptedError):
        return None
    return bytes(view[:size]), address
