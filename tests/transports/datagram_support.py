"""What the tests of datagram transports share: a protocol that records, and open endpoints."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.transports.recorder import Events, settle

ANY_PORT = ("127.0.0.1", 0)
MOST = 100_000
"""Datagrams after which a kernel is known to refuse none, or not with EAGAIN: the BSDs say ENOBUFS."""


class DatagramRecorder(Events, asyncio.DatagramProtocol):
    """Records what it is told."""

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.note("datagram", data, addr)

    def error_received(self, exc: Exception) -> None:
        self.note("error", exc)

    def datagrams(self) -> list[bytes]:
        return [event[1] for event in self.events if event[0] == "datagram"]

    def errors(self) -> list[Exception]:
        return [event[1] for event in self.events if event[0] == "error"]


@contextlib.asynccontextmanager
async def endpoint(protocol: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
    """Give `protocol` a transport made by `create_datagram_endpoint`; yield that and leave nothing behind."""
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: protocol, *args, **kwargs)
    try:
        yield transport
    finally:
        if transport._sock is not None:  # asyncio's cannot be aborted once it is closed
            transport.abort()
        await settle()


def udp_socket(family: int = socket.AF_INET) -> socket.socket:
    """Return a non-blocking socket, bound to a port of the loopback device."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
    sock.setblocking(False)
    return sock


def unix_socket(path: Path) -> socket.socket:
    """Return a non-blocking socket, bound to `path`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(path))
    sock.setblocking(False)
    return sock


def fill(transport: Any, address: Any = None) -> list[bytes]:
    """Send numbered datagrams until the kernel takes no more; return them, the last of which is queued."""
    sent: list[bytes] = []
    while not transport.get_write_buffer_size():
        if len(sent) == MOST:
            pytest.skip("the system does not refuse with EAGAIN")
        sent.append(b"%06d" % len(sent))
        transport.sendto(sent[-1], address)
    return sent


async def drain(peer: socket.socket, count: int) -> list[bytes]:
    """Receive `count` datagrams."""
    loop = asyncio.get_running_loop()
    return [await loop.sock_recv(peer, 1 << 16) for _ in range(count)]
