"""What the tests of endpoints and streams share."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable
from typing import Any, TypeVar

from tests.coroutines import bounded, settled

T = TypeVar("T")


def run(loop: asyncio.AbstractEventLoop, main: Awaitable[T]) -> T:
    """Run `main` and what it has started to the end, and return its result."""
    return loop.run_until_complete(bounded(settled(main)))


def row(host: str, port: int, family: int = socket.AF_INET) -> tuple[Any, ...]:
    """Return what getaddrinfo says of a TCP address."""
    address = (host, port) if family == socket.AF_INET else (host, port, 0, 0)
    return (socket.AddressFamily(family), socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)


def noting_backlogs(family: int) -> tuple[socket.socket, list[int]]:
    """Return a stream socket, and the backlogs that it was told to listen with."""
    noted: list[int] = []

    class Listening(socket.socket):  # not outside: on "sim" this is the simulation's class
        def listen(self, backlog: int = -1, /) -> None:
            noted.append(backlog)
            super().listen(backlog)

    return Listening(family), noted


class Greeter(asyncio.Protocol):
    """Says hello and hangs up."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


async def finish(writer: asyncio.StreamWriter) -> None:
    """Close, and wait until it is closed, whatever becomes of the peer."""
    writer.close()
    with contextlib.suppress(OSError):  # an ssl.SSLError is one, too
        await writer.wait_closed()


async def stop(server: asyncio.AbstractServer) -> None:
    """Close the server and wait for what it waits for."""
    server.close()
    await server.wait_closed()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back what comes until the end."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    await finish(writer)
