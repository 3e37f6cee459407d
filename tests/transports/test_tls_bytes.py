"""What is written to a TLS transport arrives, and what the peer sends is received: whole, in order, and once."""

import asyncio
import socket
import ssl
from typing import Any

import pytest

from tests.transports.recorder import BufferedRecorder, Recorder, opened, receive, run, settle, unix_pair, waiting
from tests.transports.tls_support import APPLICATION_DATA, Peer, client_context, connect, secured, server_context

LARGE = bytes(range(256)) * 4096  # 1 MiB
ROLES = pytest.mark.parametrize("server_side", [True, False], ids=["server", "client"])


@pytest.mark.covers("SSLTransport.write")
@ROLES
@pytest.mark.parametrize("data", [b"x", b"y" * 16385, LARGE], ids=["a byte", "two records", "a mebibyte"])
async def test_what_is_written_arrives(server_side: bool, data: bytes) -> None:
    async with secured(Recorder(), server_side=server_side) as (transport, peer):
        transport.write(data)
        assert await peer.receive(len(data)) == data


@ROLES
@pytest.mark.parametrize("data", [b"x", b"y" * 16385, LARGE], ids=["a byte", "two records", "a mebibyte"])
async def test_what_the_peer_sends_is_received(server_side: bool, data: bytes) -> None:
    protocol = Recorder()
    async with secured(protocol, server_side=server_side) as (_, peer):
        await peer.send(data)
        await protocol.until(lambda: len(protocol.received()) >= len(data))
        assert protocol.received() == data


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
async def test_both_versions_of_tls_work(version: ssl.TLSVersion) -> None:
    context = server_context()
    context.minimum_version = context.maximum_version = version
    protocol = Recorder()
    async with secured(protocol, ssl=context) as (transport, peer):
        await peer.send(b"ping")
        await protocol.seen("data")
        transport.write(b"pong")
        assert await peer.receive(4) == b"pong"
        assert transport.get_extra_info("ssl_object").version() == peer.tls.version()


@pytest.mark.covers("SSLTransport.writelines")
async def test_any_bytes_like_object_can_be_written() -> None:
    async with secured(Recorder()) as (transport, peer):
        transport.write(b"bytes,")
        transport.write(bytearray(b"bytearray,"))
        transport.write(memoryview(b"memoryview,"))
        transport.writelines([b"list,", bytearray(b"of,"), memoryview(b"lines")])
        transport.write(b"")
        expected = b"bytes,bytearray,memoryview,list,of,lines"
        assert await peer.receive(len(expected)) == expected


async def test_other_objects_cannot_be_written() -> None:
    async with secured(Recorder()) as (transport, _):
        wrong: Any = "text"
        with pytest.raises(TypeError, match="data: expecting a bytes-like instance, got str"):
            transport.write(wrong)


@pytest.mark.loopcore_only
async def test_a_buffer_may_be_changed_after_it_was_written() -> None:
    async with secured(Recorder()) as (transport, peer):
        buffer = bytearray(b"before")
        transport.write(buffer)
        transport.write(memoryview(buffer))
        buffer[:] = b"after!"
        assert await peer.receive(12) == b"beforebefore"


@pytest.mark.loopcore_only
async def test_writes_of_a_tick_leave_in_one_record() -> None:
    async with secured(Recorder()) as (transport, peer):
        transport.write(b"first")
        assert await peer.receive(5) == b"first"
        peer.records.clear()  # of the handshake
        for number in range(100):
            transport.write(b"%02d" % number)
        assert len(await peer.receive(200)) == 200
        assert [kind for kind, _ in peer.records] == [APPLICATION_DATA]


@pytest.mark.loopcore_only
async def test_writes_of_a_tick_leave_between_two_callbacks_when_they_are_much(loop: Any) -> None:
    unsent: list[int] = []
    async with secured(Recorder()) as (first, first_peer), secured(Recorder()) as (second, second_peer):
        loop.flush_limit = 150
        for transport in (first, second):
            loop.call_soon(transport.write, b"x" * 100)
            loop.call_soon(lambda: unsent.append(first._engine.unencrypted + second._engine.unencrypted))
        assert await first_peer.receive(100) == await second_peer.receive(100) == b"x" * 100
    assert unsent == [100, 0]


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.loopcore_only
async def test_an_answer_leaves_with_its_event_if_nothing_waits(alone: bool) -> None:
    answered: list[socket.socket] = []
    had_left: list[bool] = []

    class Answer(asyncio.Protocol):
        def __init__(self, other: Any, far: socket.socket) -> None:
            self.other = other
            self.far = far

        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            had_left.extend(bool(waiting(sock)) for sock in answered)
            answered.append(self.far)
            if not alone:
                self.other.write(b"first")
            self.transport.write(b"an ")
            self.transport.write(b"answer")

    async with opened(Recorder()) as (other, other_peer):
        peers = []
        for _ in range(2):
            near, far = unix_pair()
            peers.append(Peer(far, client_context(), server_side=False))
            connecting = asyncio.ensure_future(connect(Answer(other, far), near, server_side=True))
            await peers[-1].handshake()
            await connecting
        await settle()
        for peer in peers:  # not by operations of the loop's, which would have turns of their own
            peer.incoming.write(peer.sock.recv(1 << 16))  # tickets
            peer.tls.write(b"x")
            peer.sock.send(peer.outgoing.read())
        await settle()
        for peer in peers:
            assert await peer.receive(9) == b"an answer"
            peer.sock.close()
        if not alone:
            assert await receive(other_peer, 10) == b"firstfirst"
        await settle()
    assert had_left == [alone]


async def test_what_is_written_in_connection_made_leaves_after_the_handshake() -> None:
    protocol = Recorder()
    protocol.react["made"] = lambda: protocol.transport.write(b"hello")
    async with secured(protocol) as (_, peer):
        assert await peer.receive(5) == b"hello"


async def test_what_comes_with_the_end_of_the_handshake_is_received() -> None:
    """The client's last part of the handshake and its first data in one piece."""
    protocol = Recorder()
    async with HeldBack(protocol) as peer:
        await peer.send(b"at once")  # together with what the handshake left in `outgoing`
        await protocol.seen("data")
        assert protocol.events[:2] == [("made",), ("data", b"at once")]


class HeldBack:
    """A connection to a server whose client has finished its handshake, but not sent the last part of it."""

    def __init__(self, protocol: Recorder) -> None:
        self.protocol = protocol

    async def __aenter__(self) -> Peer:
        near, self.far = unix_pair()
        self.connecting = asyncio.ensure_future(connect(self.protocol, near, server_side=True))
        peer = Peer(self.far, client_context(), server_side=False)
        while True:
            try:
                peer.tls.do_handshake()
            except ssl.SSLWantReadError:
                await peer.flush()
                await peer.fetch()
            else:
                return peer

    async def __aexit__(self, *_: object) -> None:
        (await self.connecting).abort()
        await settle()
        self.far.close()


@pytest.mark.parametrize("size", [1, 64, 1 << 18])
async def test_a_buffered_protocol_receives_into_its_buffer(size: int) -> None:
    protocol = BufferedRecorder(size)
    protocol.buffer = memoryview(protocol.buffer)  # asyncio fills a copy of anything else
    data = LARGE[:200] if size == 1 else LARGE[:20_000]
    async with secured(protocol) as (_, peer):
        await peer.send(data)
        await protocol.until(lambda: len(protocol.received()) >= len(data))
        assert protocol.received() == data


def test_an_interrupted_buffered_protocol_receives_the_rest_later(loop: asyncio.AbstractEventLoop) -> None:
    got = b""

    class Interrupted(asyncio.BufferedProtocol):
        buffer = bytearray(3)

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            nonlocal got
            got += self.buffer[:nbytes]
            if len(got) == 3:
                raise KeyboardInterrupt

    async def main() -> None:
        async with secured(Interrupted()) as (_, peer):
            await peer.send(b"hello")
            while got != b"hello":
                await asyncio.sleep(0)

    task = loop.create_task(asyncio.wait_for(main(), 10))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(task)
    run(loop, task)


@pytest.mark.loopcore_only
async def test_a_buffered_protocol_may_give_a_bytearray() -> None:
    protocol = BufferedRecorder(10)
    async with secured(protocol) as (_, peer):
        await peer.send(b"0123456789abcdef")
        await protocol.until(lambda: len(protocol.received()) >= 16)
        assert protocol.received() == b"0123456789abcdef"


@pytest.mark.reports_errors
@pytest.mark.loopcore_only
async def test_an_empty_buffer_ends_the_connection() -> None:
    protocol = BufferedRecorder(0)
    async with secured(protocol) as (_, peer):
        await peer.send(b"x")
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), RuntimeError)


@pytest.mark.covers("SSLTransport.set_protocol")
@pytest.mark.parametrize("to_buffered", [True, False], ids=["to buffered", "from buffered"])
async def test_a_protocol_that_is_replaced_while_receiving_gets_no_more(to_buffered: bool) -> None:
    first: Any = Recorder() if to_buffered else BufferedRecorder(4)
    second: Any = BufferedRecorder(64) if to_buffered else Recorder()
    if not to_buffered:
        first.buffer = memoryview(first.buffer)
    else:
        second.buffer = memoryview(second.buffer)
    async with secured(first) as (transport, peer):
        first.react["data"] = lambda: transport.set_protocol(second)
        await peer.send(b"0123")
        await first.seen("data")
        assert transport.get_protocol() is second
        await peer.send(b"4567")
        await second.seen("data")
        assert (first.received(), second.received()) == (b"0123", b"4567")
        second.transport = transport


@pytest.mark.reports_errors
async def test_a_protocol_that_fails_to_receive_loses_the_connection() -> None:
    protocol = Recorder()
    error = ValueError("not what I wanted")

    def fail() -> None:
        raise error

    protocol.react["data"] = fail
    async with secured(protocol) as (transport, peer):
        await peer.send(b"x")
        await protocol.seen("lost")
        assert protocol.lost_with() is error
        assert transport.is_closing()
