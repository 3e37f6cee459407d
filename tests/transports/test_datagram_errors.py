"""Errors: of the network, of the socket, of the program and of the protocol."""

import asyncio
import errno
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.transports.datagram_support import ANY_PORT, DatagramRecorder, drain, endpoint, udp_socket
from tests.transports.pipe_support import made, pipe_pair, put
from tests.transports.recorder import Handled, Recorder, settle

Loop = asyncio.AbstractEventLoop


@pytest.fixture
def deaf() -> Iterator[socket.socket]:
    """A bound socket that hears nobody else: what is sent to it is refused, and nobody can be given its port."""
    with udp_socket() as sock:
        sock.connect(sock.getsockname())
        yield sock


async def test_a_refusal_by_the_peers_host_is_an_error_of_one_datagram(deaf: socket.socket) -> None:
    protocol = DatagramRecorder()
    async with endpoint(protocol, remote_addr=deaf.getsockname()) as transport:
        transport.sendto(b"x")
        await protocol.seen("error")
        (error,) = protocol.errors()
        assert isinstance(error, ConnectionRefusedError)
        assert not transport.is_closing()
        deaf.connect(transport.get_extra_info("sockname"))
        transport.sendto(b"y")
        assert await drain(deaf, 1) == [b"y"]
        deaf.send(b"z")
        await protocol.seen("datagram")


async def test_a_refusal_may_meet_the_next_datagram(deaf: socket.socket) -> None:
    protocol = DatagramRecorder()
    async with endpoint(protocol, remote_addr=deaf.getsockname()) as transport:
        transport.sendto(b"x")
        transport.sendto(b"y")  # over the loopback device the answer is there already
        assert [type(error) for error in protocol.errors()] == [ConnectionRefusedError]
        assert not transport.is_closing()


async def test_an_endpoint_without_a_peer_hears_nothing_of_refusals(deaf: socket.socket) -> None:
    protocol = DatagramRecorder()
    with udp_socket() as peer:
        async with endpoint(protocol, ANY_PORT) as transport:
            transport.sendto(b"x", deaf.getsockname())
            peer.sendto(b"y", transport.get_extra_info("sockname"))
            await protocol.seen("datagram")
            assert protocol.errors() == []


async def test_a_datagram_that_is_too_long_is_refused_at_once() -> None:
    protocol = DatagramRecorder()
    with udp_socket() as peer:
        async with endpoint(protocol, remote_addr=peer.getsockname()) as transport:
            transport.sendto(bytes(70_000))
            (error,) = protocol.errors()
            assert isinstance(error, OSError)
            assert error.errno == errno.EMSGSIZE
            transport.sendto(b"x")
            assert await drain(peer, 1) == [b"x"]


class Raising(DatagramRecorder):
    def datagram_received(self, data: bytes, addr: Any) -> None:
        super().datagram_received(data, addr)
        raise ZeroDivisionError("of datagram_received")

    def error_received(self, exc: Exception) -> None:
        super().error_received(exc)
        raise ZeroDivisionError("of error_received")


async def test_an_error_in_datagram_received_is_reported_and_no_more(loop: Loop) -> None:
    handled = Handled(loop)
    protocol = Raising()
    with udp_socket() as peer:
        async with endpoint(protocol, ANY_PORT) as transport:
            peer.sendto(b"x", transport.get_extra_info("sockname"))
            peer.sendto(b"y", transport.get_extra_info("sockname"))
            await protocol.seen("datagram", 2)
            await settle()
            assert not transport.is_closing()
    assert [str(context["exception"]) for context in handled.contexts] == ["of datagram_received"] * 2
    assert all(message.startswith("Exception in callback ") for message in handled.messages())


async def test_an_error_in_error_received_is_reported_and_no_more(loop: Loop, deaf: socket.socket) -> None:
    handled = Handled(loop)
    protocol = Raising()
    async with endpoint(protocol, remote_addr=deaf.getsockname()) as transport:
        transport.sendto(b"x")
        await protocol.seen("error")
        await settle()
        assert not transport.is_closing()
    assert [str(context["exception"]) for context in handled.contexts] == ["of error_received"]
    assert all(message.startswith("Exception in callback ") for message in handled.messages())


@pytest.mark.differs(
    "EventLoop.set_exception_handler",
    why="The context of an error in `datagram_received`, `error_received` or a pipe's `data_received` has `protocol` "
    "and `transport`; asyncio's has `handle`.",
)
async def test_the_report_of_an_error_names_the_protocol_and_the_transport(
    loop: Loop, deaf: socket.socket, backend_name: str
) -> None:
    handled = Handled(loop)
    datagrams, reader = Raising(), Recorder()
    async with endpoint(datagrams, remote_addr=deaf.getsockname()) as transport:
        transport.sendto(b"x")
        await datagrams.seen("error")
        deaf.connect(transport.get_extra_info("sockname"))
        deaf.send(b"y")
        await datagrams.seen("datagram")
    with made(pipe_pair) as (reading, writing):
        pipe, _ = await loop.connect_read_pipe(lambda: reader, reading)
        reader.react["data"] = lambda: 1 // 0
        put(writing, b"z")
        await reader.seen("data")
        pipe.close()
        await reader.seen("lost")
    if backend_name == "asyncio":
        assert [isinstance(context["handle"], asyncio.Handle) for context in handled.contexts] == [True] * 3
        assert not any({"protocol", "transport"} & context.keys() for context in handled.contexts)
        return
    named = [(context["protocol"], context["transport"]) for context in handled.contexts]
    assert named == [(datagrams, transport), (datagrams, transport), (reader, pipe)]
    assert not any("handle" in context for context in handled.contexts)


async def test_what_error_received_raises_within_sendto_reaches_the_caller(deaf: socket.socket) -> None:
    async with endpoint(Raising(), ANY_PORT) as transport:
        with pytest.raises(ZeroDivisionError, match="of error_received"):
            transport.sendto(bytes(70_000), deaf.getsockname())
        assert not transport.is_closing()


@pytest.mark.parametrize("address", [None, "nonsense", ("127.0.0.1",), ("127.0.0.1\0.example", 9)])
async def test_an_address_that_is_none_ends_the_transport(loop: Loop, address: Any) -> None:
    handled = Handled(loop)
    protocol = DatagramRecorder()
    async with endpoint(protocol, ANY_PORT) as transport:
        transport.sendto(b"x", address)
        assert transport.is_closing()
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), TypeError)
        (context,) = handled.contexts
        assert context["message"] == "Fatal write error on datagram transport"
        assert context["exception"] is protocol.lost_with()
        assert context["transport"] is transport
        assert context["protocol"] is protocol


def test_an_exit_in_datagram_received_ends_the_run(loop: Loop) -> None:
    class Leaving(DatagramRecorder):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            raise SystemExit(3)

    async def main() -> None:
        await loop.create_datagram_endpoint(lambda: protocol, ANY_PORT)
        with udp_socket() as peer:
            peer.sendto(b"x", protocol.transport.get_extra_info("sockname"))
        await asyncio.get_running_loop().create_future()

    protocol = Leaving()
    task = loop.create_task(main())
    with pytest.raises(SystemExit):
        loop.run_until_complete(task)
    task.cancel()
    protocol.transport.abort()
    loop.run_until_complete(asyncio.wait([task]))
    loop.run_until_complete(settle())
