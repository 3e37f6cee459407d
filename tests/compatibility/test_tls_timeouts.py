"""The two timeouts of TLS, in each of the ways to a TLS connection."""

import asyncio
import contextlib
import functools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.transports.recorder import Recorder, settle, unix_pair
from tests.transports.tls_support import Peer, client_context, server_context

Loop = asyncio.AbstractEventLoop
Opening = Callable[..., Awaitable[Any]]
SHORT = 0.05


async def connection(name: str, protocol: Any, sock: socket.socket, **timeouts: float) -> Any:
    open_it = getattr(asyncio.get_running_loop(), name)
    options = {"sock": sock, "ssl": client_context(), "server_hostname": "localhost"}
    transport, _ = await open_it(lambda: protocol, **options, **timeouts)
    return transport


async def accepted(protocol: Any, sock: socket.socket, **timeouts: float) -> Any:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=server_context(), **timeouts)
    return transport


async def upgraded(protocol: Any, sock: socket.socket, **timeouts: float) -> Any:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(lambda: protocol, sock=sock)
    return await loop.start_tls(transport, protocol, client_context(), server_hostname="localhost", **timeouts)


def ways(timeout: str) -> list[Any]:
    """The ways to a TLS connection, marked for this timeout."""
    return [
        pytest.param(opening, marks=pytest.mark.covers(f"EventLoop.{name}({timeout})"), id=name)
        for name, opening in {
            "create_connection": functools.partial(connection, "create_connection"),
            "create_unix_connection": functools.partial(connection, "create_unix_connection"),
            "connect_accepted_socket": accepted,
            "start_tls": upgraded,
        }.items()
    ]


def kinds_of_servers(timeout: str) -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.covers(f"EventLoop.{name}({timeout}, ssl)"), id=name)
        for name in ("create_server", "create_unix_server")
    ]


@contextlib.asynccontextmanager
async def client_of(name: str, protocol: Any, folder: Path, **timeouts: float) -> AsyncIterator[socket.socket]:
    """Serve `protocol` over TLS; yield a bare socket that is connected to the server."""
    loop = asyncio.get_running_loop()
    where: tuple[Any, ...] = (str(folder / "socket"),) if name == "create_unix_server" else ("127.0.0.1", 0)
    server = await getattr(loop, name)(lambda: protocol, *where, ssl=server_context(), **timeouts)
    with socket.socket(server.sockets[0].family) as client:
        client.setblocking(False)
        await loop.sock_connect(client, server.sockets[0].getsockname())
        yield client
    server.close()
    await server.wait_closed()
    await settle()


@pytest.mark.parametrize("opening", ways("ssl_handshake_timeout"))
async def test_a_silent_peer_is_given_up(opening: Opening) -> None:
    near, far = unix_pair()
    with far:
        with pytest.raises(ConnectionAbortedError, match=rf"^SSL handshake is taking longer than {SHORT} seconds"):
            await opening(Recorder(), near, ssl_handshake_timeout=SHORT)
        await settle()


@pytest.mark.reports_errors  # in debug mode, as asyncio does
@pytest.mark.parametrize("name", kinds_of_servers("ssl_handshake_timeout"))
async def test_a_silent_client_is_given_up(loop: Loop, name: str, tmp_path: Path) -> None:
    async with client_of(name, Recorder(), tmp_path, ssl_handshake_timeout=SHORT) as client:
        assert await loop.sock_recv(client, 1) == b""


@pytest.mark.parametrize("opening", ways("ssl_shutdown_timeout"))
async def test_a_peer_that_never_says_good_bye_is_left(opening: Opening) -> None:
    near, far = unix_pair()
    with far:
        protocol = Recorder()
        ours = opening is accepted
        peer = Peer(far, client_context() if ours else server_context(), server_side=not ours)
        transport, _ = await asyncio.gather(opening(protocol, near, ssl_shutdown_timeout=SHORT), peer.handshake())
        transport.close()
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), TimeoutError)


@pytest.mark.parametrize("name", kinds_of_servers("ssl_shutdown_timeout"))
async def test_a_client_that_never_says_good_bye_is_left(name: str, tmp_path: Path) -> None:
    protocol = Recorder()
    async with client_of(name, protocol, tmp_path, ssl_shutdown_timeout=SHORT) as client:
        await Peer(client, client_context(), server_side=False).handshake()
        await protocol.seen("made")
        protocol.transport.close()
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), TimeoutError)
