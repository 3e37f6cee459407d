"""What a TLS transport says of itself."""

import asyncio
import contextvars
import ssl
from typing import Any

import pytest

from tests.transports.recorder import Recorder, settle, tcp_pair
from tests.transports.tls_support import client_context, secured, server_context

NAMES = ("peercert", "cipher", "compression", "ssl_object", "sslcontext", "socket", "sockname", "peername")


@pytest.mark.covers(
    "SSLTransport.get_extra_info('cipher', 'compression', 'peercert', 'ssl_object', 'sslcontext')",
    "SSLTransport.get_extra_info('peername', 'sockname', 'socket')",
)
async def test_extra_info_is_complete() -> None:
    context = client_context()
    async with secured(Recorder(), server_side=False, make_pair=tcp_pair, ssl=context) as (transport, peer):
        told = {name: transport.get_extra_info(name, "unknown") for name in NAMES}
        assert ("DNS", "localhost") in told["peercert"]["subjectAltName"]
        assert told["cipher"] == peer.tls.cipher()
        assert told["compression"] is None
        assert isinstance(told["ssl_object"], ssl.SSLObject)
        assert told["sslcontext"] is context
        assert told["socket"].fileno() >= 0
        assert told["sockname"] == peer.sock.getpeername()
        assert told["peername"] == peer.sock.getsockname()
        assert transport.get_extra_info("weather", "fine") == "fine"


async def test_a_server_sees_no_certificate_it_has_not_asked_for() -> None:
    async with secured(Recorder()) as (transport, _):
        assert transport.get_extra_info("peercert") is None


@pytest.mark.differs(
    "SSLTransport.get_extra_info",
    why="It still answers after the connection is lost; asyncio then drops the facts about TLS.",
)
@pytest.mark.loopcore_only
async def test_extra_info_outlives_the_connection() -> None:
    protocol = Recorder()
    async with secured(protocol, server_side=False, make_pair=tcp_pair) as (transport, _):
        told = {name: transport.get_extra_info(name) for name in NAMES}
        transport.abort()
        await protocol.seen("lost")
        transport.close()
        assert {name: transport.get_extra_info(name) for name in NAMES} == told
        assert transport.get_protocol() is None


@pytest.mark.loopcore_only
async def test_the_context_is_found_where_libraries_look_for_it() -> None:
    """aiohttp's suite looks at asyncio's `_ssl_protocol._sslcontext` first, then at uvloop's `_sslcontext`."""
    async with secured(Recorder()) as (transport, _):
        assert transport._sslcontext is transport.get_extra_info("sslcontext")


@pytest.mark.covers("SSLTransport.get_protocol", "SSLTransport.is_reading")
async def test_it_is_a_transport() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, _):
        assert isinstance(transport, asyncio.Transport)
        assert transport.get_protocol() is protocol
        assert transport.is_reading()
        assert not transport.is_closing()
        transport.close()
        assert transport.is_closing()


@pytest.mark.differs(
    "SSLTransport.is_reading", why="It is False after `close`, as in other transports; asyncio's stays True."
)
async def test_a_closed_transport_is_not_reading(backend_name: str) -> None:
    async with secured(Recorder()) as (transport, _):
        transport.close()
        assert transport.is_reading() == (backend_name == "asyncio")


@pytest.mark.loopcore_only
async def test_its_representation_names_the_state_and_the_carrier() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, _):
        assert repr(transport).startswith("<SSLTransport open over <StreamTransport fd=")
        transport.abort()
        assert repr(transport).startswith("<SSLTransport done over")
        await protocol.seen("lost")
        assert repr(transport)


@pytest.mark.covers("SSLTransport.can_write_eof", "SSLTransport.write_eof")
async def test_one_half_cannot_be_closed() -> None:
    async with secured(Recorder()) as (transport, _):
        assert not transport.can_write_eof()
        with pytest.raises(NotImplementedError):
            transport.write_eof()


@pytest.mark.loopcore_only
async def test_the_contexts_of_callbacks_are_the_one_of_the_connection() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    protocol = Recorder()
    seen: dict[str, str] = {}
    protocol.react["made"] = lambda: variable.set("set in connection_made")
    for name in ("data", "pause", "resume", "eof", "lost"):
        protocol.react[name] = lambda name=name: seen.setdefault(name, variable.get("nothing"))
    async with secured(protocol) as (transport, peer):
        await peer.send(b"x")
        await protocol.seen("data")
        transport.write(b"x" * (1 << 22))
        await settle()
        await asyncio.gather(peer.receive(1 << 22), protocol.seen("resume"))
        await peer.notify()
        await protocol.seen("lost")
        del seen["pause"]  # called from within `write`
        assert seen == dict.fromkeys(("data", "resume", "eof", "lost"), "set in connection_made")


@pytest.mark.differs(
    "Server.close_clients",
    why="It closes the TLS session: written data is still encrypted and sent; asyncio closes the socket below it.",
)
@pytest.mark.loopcore_only
async def test_servers_know_their_tls_connections(loop: Any) -> None:
    """`close_clients` sends what was written, which is still plaintext until the end of the tick."""
    protocol = Recorder()
    server: Any = await loop.create_server(lambda: protocol, "127.0.0.1", 0, ssl=server_context())
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=client_context())
    await protocol.seen("made")
    server.close()
    protocol.transport.write(b"last words")
    server.close_clients()
    assert await reader.read() == b"last words"
    writer.close()
    await writer.wait_closed()
    await protocol.seen("lost")
    assert protocol.lost_with() is None
    await server.wait_closed()
