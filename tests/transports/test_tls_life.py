"""A TLS connection leaves nothing behind: no cycle, no descriptor, no timer; with the garbage collector switched off.

MagicStack/uvloop#220 and #565 are about what stayed alive.
"""

import asyncio
import contextlib
import gc
import os
import ssl
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transports.recorder import Recorder, settle, unix_pair
from tests.transports.tls_support import Peer, client_context, connect, secured, server_context, stranger_context


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def parts(transport: Any) -> list[Any]:
    """Weak references to what a connection is made of."""
    protocol = transport.get_protocol()
    found = [transport, transport._carrier, protocol, transport._engine.tls]
    return [weakref.ref(part) for part in found if part is not None]


async def closed_by_us(server_side: bool) -> list[Any]:
    protocol = Recorder()
    async with secured(protocol, server_side=server_side) as (transport, peer):
        refs = parts(transport)
        transport.write(b"x" * 100_000)
        transport.get_extra_info("peercert")
        transport.close()
        await peer.receive()
        await peer.notify()
        await protocol.seen("lost")
    return refs


async def closed_by_peer(server_side: bool) -> list[Any]:
    protocol = Recorder()
    async with secured(protocol, server_side=server_side) as (transport, peer):
        refs = parts(transport)
        await peer.send(b"x" * 100_000)
        await peer.notify()
        await protocol.seen("lost")
    return refs


async def aborted_while_full(server_side: bool) -> list[Any]:
    protocol = Recorder()
    async with secured(protocol, server_side=server_side) as (transport, _):
        refs = parts(transport)
        transport.write(b"x" * (1 << 22))
        transport.pause_reading()
        await settle()
        transport.abort()
        await protocol.seen("lost")
    return refs


async def garbled(server_side: bool) -> list[Any]:
    protocol = Recorder()
    async with secured(protocol, server_side=server_side) as (transport, peer):
        refs = parts(transport)
        await asyncio.get_running_loop().sock_sendall(peer.sock, b"\x17\x03\x03\x00\x20" + bytes(32))
        await protocol.seen("lost")
    return refs


async def closed_after_the_shutdown_timeout(server_side: bool) -> list[Any]:
    protocol = Recorder()
    async with secured(protocol, server_side=server_side, ssl_shutdown_timeout=0.02) as (transport, _):
        refs = parts(transport)
        transport.close()
        await protocol.seen("lost")
    return refs


async def refused(server_side: bool) -> list[Any]:
    """A handshake that fails."""
    near, far = unix_pair()
    protocol = Recorder()
    refs: list[Any] = [weakref.ref(protocol)]
    with far:
        context = stranger_context() if server_side else server_context()
        peer = Peer(far, context, server_side=not server_side)
        options = {} if server_side else {"ssl": stranger_context()}
        connecting = asyncio.ensure_future(connect(protocol, near, server_side=server_side, **options))
        with contextlib.suppress(ssl.SSLError):
            await peer.handshake()
        await asyncio.wait([connecting])
        assert isinstance(connecting.exception(), ssl.SSLError | ConnectionError)
        await settle()
    return refs


async def upgraded(server_side: bool) -> list[Any]:
    loop = asyncio.get_running_loop()
    near, far = unix_pair()
    protocol = Recorder()
    with far:
        plain, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        peer = Peer(far, client_context() if server_side else server_context(), server_side=not server_side)
        context = server_context() if server_side else client_context()
        name = None if server_side else "localhost"
        upgrading = asyncio.ensure_future(
            loop.start_tls(plain, protocol, context, server_side=server_side, server_hostname=name)
        )
        await peer.handshake()
        refs = parts(await upgrading)
        await peer.notify()
        await protocol.seen("lost")
    return refs


SCENARIOS: list[Any] = [
    closed_by_us,
    closed_by_peer,
    aborted_while_full,
    garbled,
    closed_after_the_shutdown_timeout,
    refused,
    upgraded,
]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("server_side", [True, False], ids=["server", "client"])
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.loopcore_only
async def test_nothing_stays_alive(scenario: Any, server_side: bool) -> None:
    refs = await scenario(server_side)
    await settle()
    assert [ref() for ref in refs if ref() is not None] == []


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
@pytest.mark.usefixtures("no_collector")
@pytest.mark.loopcore_only
async def test_many_connections_leave_no_descriptor_and_no_object() -> None:
    """Through a real server, streams at both ends; counted once the first ones have warmed everything up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def talk(address: Any, context: ssl.SSLContext) -> None:
        reader, writer = await asyncio.open_connection(*address, ssl=context, server_hostname="localhost")
        writer.write(b"hello")
        assert await reader.read() == b"hello"
        writer.close()
        await writer.wait_closed()

    def transports() -> int:
        return sum(type(found).__name__ in ("SSLTransport", "StreamTransport") for found in gc.get_objects())

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context())
    address = server.sockets[0].getsockname()
    context = client_context()
    await talk(address, context)
    while transports():
        await asyncio.sleep(0)
    before = descriptors(), transports()
    for _ in range(30):
        await talk(address, context)
    while asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.sleep(0)
    await settle()
    assert (descriptors(), transports()) == before
    server.close()
    await server.wait_closed()


@pytest.mark.loopcore_only
async def test_timers_end_with_what_they_watch() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        assert transport._timer is None
        transport.close()
        assert transport._timer is not None
        await peer.receive()
        await peer.notify()
        await protocol.seen("lost")
        assert transport._timer is None


@pytest.mark.loopcore_only
async def test_a_transport_that_nobody_closed_says_so() -> None:
    near, far = unix_pair()
    peer = Peer(far, client_context(), server_side=False)
    with far:
        connecting = asyncio.ensure_future(connect(asyncio.Protocol(), near, server_side=True))
        await peer.handshake()
        transport = await connecting
        transport.pause_reading()  # else the loop keeps it alive, and it could be of use yet
        del connecting
        await settle()  # a task knows what it has waited for until it waits for something else
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            del transport
            gc.collect()
        assert any("unclosed transport <SSLTransport open" in str(warning.message) for warning in warned)
        assert near.fileno() < 0
