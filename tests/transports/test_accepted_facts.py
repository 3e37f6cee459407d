"""What is known of an accepted connection without asking the kernel, and what is asked."""

import asyncio
import contextlib
import errno
import gc
import os
import socket
import sys
import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loopcore.transports.accepted import AcceptedSocket, real_socket

Loop = asyncio.AbstractEventLoop


class Kept(asyncio.Protocol):
    """Keeps its transport, also when it is lost."""

    transport: Any

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


@contextlib.asynccontextmanager
async def accepted(host: str = "127.0.0.1", family: int = socket.AF_INET) -> AsyncIterator[tuple[Kept, socket.socket]]:
    """Serve at `host`, connect twice, and yield the protocol of the second connection and its client."""
    loop = asyncio.get_running_loop()
    made: list[Kept] = []

    def factory() -> Kept:
        made.append(Kept())
        return made[-1]

    server = await loop.create_server(factory, host, 0, family=family)
    port = server.sockets[0].getsockname()[1]
    clients = []
    for count in (1, 2):
        client = socket.create_connection(("::1" if family == socket.AF_INET6 else "127.0.0.1", port))
        clients.append(client)
        while len(made) < count or not hasattr(made[-1], "transport"):
            await asyncio.sleep(0)
    yield made[-1], clients[-1]
    for protocol in made:
        protocol.transport.close()
        await protocol.ended
    for client in clients:
        client.close()
    server.close()
    await server.wait_closed()


ADDRESSES = [
    ("127.0.0.1", socket.AF_INET),
    ("0.0.0.0", socket.AF_INET),
    pytest.param("::1", socket.AF_INET6, marks=pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")),
]


@pytest.mark.parametrize(("host", "family"), ADDRESSES)
async def test_names_are_the_kernels(host: str, family: int) -> None:
    async with accepted(host, family) as (protocol, client):
        transport = protocol.transport
        assert transport.get_extra_info("peername") == client.getsockname()
        assert transport.get_extra_info("sockname") == client.getpeername()
        sock = transport.get_extra_info("socket")
        assert (sock.family, sock.type, sock.gettimeout()) == (family, socket.SOCK_STREAM, 0.0)
        assert sock.getsockname() == client.getpeername()
        assert transport.get_extra_info("socket") is sock


@pytest.mark.parametrize(("host", "family"), ADDRESSES)
async def test_names_are_known_when_the_connection_is_lost(host: str, family: int) -> None:
    async with accepted(host, family) as (protocol, client):
        ours, theirs = client.getsockname(), client.getpeername()
        client.close()
        await protocol.ended
        await asyncio.sleep(0)
        assert protocol.transport.get_extra_info("peername") == ours
        assert protocol.transport.get_extra_info("sockname") == theirs
        assert protocol.transport.get_extra_info("socket").fileno() == -1


@pytest.mark.skipif(not socket.has_ipv6 or sys.platform != "linux", reason="binds IPv4's any address as IPv6")
async def test_the_any_address_of_ipv4_in_ipv6_is_no_connections_name(loop: Loop) -> None:
    listener = socket.socket(socket.AF_INET6)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind(("::ffff:0.0.0.0", 0))
    made: asyncio.Future[Kept] = loop.create_future()

    class Told(Kept):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            made.set_result(self)

    server = await loop.create_server(Told, sock=listener)
    with socket.create_connection(("127.0.0.1", listener.getsockname()[1])):
        accepted = await made
        accepted.transport.close()
        await accepted.ended
        assert accepted.transport.get_extra_info("sockname")[0] == "::ffff:127.0.0.1"
    server.close()
    await server.wait_closed()


async def test_small_writes_leave_at_once_on_every_connection() -> None:
    async with accepted() as (protocol, _):
        sock = protocol.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_our_half_of_an_accepted_connection_can_be_closed(loop: Loop) -> None:
    async with accepted() as (protocol, client):
        client.setblocking(False)
        protocol.transport.write(b"all")
        protocol.transport.write_eof()
        assert await loop.sock_recv(client, 10) == b"all"
        assert await loop.sock_recv(client, 10) == b""
        assert not protocol.transport.is_closing()


async def test_the_socket_of_an_accepted_connection_is_closed_once_and_with_it() -> None:
    async with accepted() as (protocol, client):
        sock = protocol.transport._sock
        assert isinstance(sock, socket.socket)
        assert protocol.transport._sock is sock
        protocol.transport.close()
        await protocol.ended
        await asyncio.sleep(0)
        assert sock.fileno() == -1
        assert client.recv(1) == b""


def accepted_socket() -> tuple[AcceptedSocket, socket.socket]:
    near, far = socket.socketpair()
    family, kind, proto = int(near.family), int(near.type), near.proto
    return AcceptedSocket(near.detach(), (family, kind, proto)), far


def test_a_socket_is_made_when_it_is_asked_for_something() -> None:
    near, far = accepted_socket()
    with far:
        number = near.fileno()
        made = real_socket(near)
        assert isinstance(made, socket.socket)
        assert (made.fileno(), near.fileno()) == (number, number)
        assert real_socket(near) is made
        assert real_socket(made) is made
        far.sendall(b"x")
        assert near.recv(1) == b"x"
        near.close()
        assert made.fileno() == near.fileno() == -1
        assert far.recv(1) == b""


def test_a_socket_that_was_never_made_is_closed_once() -> None:
    near, far = accepted_socket()
    with far:
        near.close()
        near.close()
        assert far.recv(1) == b""
        assert near.fileno() == -1
        closed = real_socket(near)
        assert (closed.fileno(), closed.family) == (-1, far.family)


def test_a_closed_socket_is_shown_also_where_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = accepted_socket()

    def refuse(self: socket.socket, *args: Any, **options: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with far:
        near.close()
        with monkeypatch.context() as patched:
            patched.setattr(socket.socket, "__init__", refuse)
            closed = real_socket(near)
        assert closed.fileno() == -1
        assert real_socket(near) is closed
        closed.close()


def test_a_socket_whose_descriptor_somebody_else_has_closed_is_shown_and_its_close_says_so() -> None:
    near, far = accepted_socket()
    with far:
        os.close(near.fileno())
        assert real_socket(near).fileno() == -1
        with pytest.raises(OSError, match="Bad file descriptor"):
            near.close()


def test_a_socket_that_nobody_closes_is_closed_with_a_warning() -> None:
    near, far = accepted_socket()
    with far:
        with pytest.warns(ResourceWarning, match="unclosed <AcceptedSocket fd="):
            del near
        assert far.recv(1) == b""


async def test_a_descriptor_is_closed_also_where_warnings_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: seen.append(unraisable.exc_type))
    near, far = accepted_socket()
    far.setblocking(False)
    with far, warnings.catch_warnings():
        warnings.simplefilter("error")
        del near
        gc.collect()
        assert far.recv(1) == b""
    assert seen == [ResourceWarning]
