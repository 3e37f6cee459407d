"""Receiving and sending datagrams in Python. `sock` is a non-blocking socket, `fd` its descriptor.

`send_connected` and `send_internet` are the twins of those in `datagrams.pxd`: same names, same contracts.
`receive_from` and `send_to` serve both builds, because only the socket module knows every family's addresses.

Thread: any; each thread receives into a separate buffer, because `recvfrom_into` releases the GIL.
All raise OSError if the kernel refuses.
"""

import socket
import threading
from typing import Any, Final

DATAGRAM_LIMIT: Final = 256 * 1024
"""Bytes of a datagram that are kept; the number is asyncio's. UDP's own limit is 65,507 (IPv4) and 65,527 (IPv6)."""


class _Buffers(threading.local):
    """One buffer per thread. `recvfrom` allocates 256 KiB for each datagram and frees nearly all of it again, which,
    depending on the heap, is two system calls and a page fault each time.
    """

    def __init__(self) -> None:
        self.view: memoryview = memoryview(bytearray(DATAGRAM_LIMIT))


_buffers = _Buffers()


def receive_from(sock: socket.socket, fd: int) -> tuple[bytes, Any] | None:
    """Return a datagram, perhaps empty, and its sender; None if there is none."""
    view = _buffers.view
    try:
        size, address = sock.recvfrom_into(view)
    except (BlockingIOError, InterruptedError):
        return None
    return bytes(view[:size]), address


def send_connected(sock: socket.socket, fd: int, item: Any) -> int:
    """Send the bytes-like `item` to the socket's connected peer; 0 means that the kernel has no room for it now."""
    try:
        sock.send(item)
    except (BlockingIOError, InterruptedError):
        return 0
    return 1


def send_to(sock: socket.socket, fd: int, item: Any, address: Any) -> int:
    """Send the bytes-like `item` to `address`; 0 means that the kernel has no room for it now."""
    try:
        sock.sendto(item, address)
    except (BlockingIOError, InterruptedError):
        return 0
    return 1


def send_internet(sock: socket.socket, fd: int, family: int, item: Any, address: Any) -> int:
    """As `send_to`, for sockets of `family`, AF_INET or AF_INET6."""
    return send_to(sock, fd, item, address)
