"""What a TLS transport says of itself."""

import asyncio
import contextvars
import ssl
from typing import Any

import pytest

from tests.transports.recorder import Recorder, run, settle, tcp_pair
from tests.transports.tls_support import client_context, secured, server_context

NAMES = ("peercert", "cipher", "compression", "ssl_object", "sslcontext", "socket", "sockname", "peername")


@pytest.mark.covers(
    "SSLTransport.get_extra_info('cipher', 'compression', 'peercert', 'ssl_object', 'sslcontext')",
    "SSLTransport.get_extra_info('peername', 'sockname', 'socket')",
)
def test_extra_info_is_complete(loop: asyncio.AbstractEventLoop) -> None:
    async def main() -> None:
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

    run(loop, main())


def test_a_server_sees_no_certificate_it_has_not_asked_for(loop: asyncio.AbstractEventLoop) -> None:
    async def main() -> None:
        async with secured(Recorder()) as (transport, _):
            assert transport.get_extra_info("peercert") is None

    run(loop, main())


@pytest.mark.differs(
    "SSLTransport.get_extra_info",
    why="It still answers after the connection is lost; asyncio then drops the facts about TLS.",
)
def test_extra_info_outlives_the_connection(loopcore_factory: Any) -> None:
    async def main() -> None:
        protocol = Recorder()
        async with secured(protocol, server_side=False, make_pair=tcp_pair) as (transport, _):
            told = {name: transport.get_extra_info(name) for name in NAMES}
            transport.abort()
            await protocol.seen("lost")
            transport.close()
            assert {name: transport.get_extra_info(name) for name in NAMES} == told
            assert transport.get_protocol() is None

    run(loopcore_factory(), main())


def test_the_context_is_found_where_libraries_look_for_it(loopcore_factory: Any) -> None:
    """aiohttp's suite looks at asyncio's `_ssl_protocol._sslcontext` first, then at uvloop's `_sslcontext`."""

    async def main() -> None:
        async with secured(Recorder()) as (transport, _):
            assert transport._sslcontext is transport.get_extra_info("sslcontext")

    run(loopcore_factory(), main())


@pytest.mark.covers("SSLTransport.get_protocol", "SSLTransport.is_reading")
def test_it_is_a_transport(loop: asyncio.AbstractEventLoop) -> None:
    async def main() -> None:
        protocol = Recorder()
        async with secured(protocol) as (transport, _):
            assert isinstance(transport, asyncio.Transport)
            assert transport.get_protocol() is protocol
            assert transport.is_reading()
            assert not transport.is_closing()
            transport.close()
            assert transport.is_closing()

    run(loop, main())


def test_its_representation_names_the_state_and_the_carrier(loopcore_factory: Any) -> None:
    async def main() -> None:
        protocol = Recorder()
        async with secured(protocol) as (transport, _):
            assert repr(transport).startswith("<SSLTransport open over <StreamTransport fd=")
            transport.abort()
            assert repr(transport).startswith("<SSLTransport done over")
            await protocol.seen("lost")
            assert repr(transport)

    run(loopcore_factory(), main())


@pytest.mark.covers("SSLTransport.can_write_eof", "SSLTransport.write_eof")
def test_one_half_cannot_be_closed(loop: asyncio.AbstractEventLoop) -> None:
    async def main() -> None:
        async with secured(Recorder()) as (transport, _):
            assert not transport.can_write_eof()
            with pytest.raises(NotImplementedError):
                transport.write_eof()

    run(loop, main())


def test_the_contexts_of_callbacks_are_the_one_of_the_connection(loopcore_factory: Any) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def main() -> None:
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

    run(loopcore_factory(), main())


@pytest.mark.differs(
    "Server.close_clients",
    why="It closes the TLS session: written data is still encrypted and sent; asyncio closes the socket below it.",
)
def test_servers_know_their_tls_connections(loopcore_factory: Any) -> None:
    """`close_clients` sends what was written, which is still plaintext until the end of the tick."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
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

    run(loopcore_factory(), main())
