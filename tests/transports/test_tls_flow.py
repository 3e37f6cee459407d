"""Backpressure through both layers: a program that does not read holds up the peer, a slow peer the program."""

import asyncio
import ssl
from typing import Any

import pytest

from tests.transports.recorder import BufferedRecorder, Recorder, settle, tcp_pair
from tests.transports.tls_support import certificate, secured

MUCH = 1 << 24
"""More than all buffers on the way can hold."""


@pytest.mark.covers("SSLTransport.pause_reading", "SSLTransport.resume_reading")
async def test_a_paused_protocol_gets_nothing_until_it_resumes() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        transport.pause_reading()
        assert not transport.is_reading()
        await peer.send(b"later")
        await settle(10)
        assert protocol.kinds() == ["made"]
        transport.resume_reading()
        assert transport.is_reading()
        await protocol.seen("data")
        assert protocol.received() == b"later"


async def test_a_paused_protocol_holds_up_the_peer() -> None:
    protocol = Recorder()
    async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
        transport.pause_reading()
        sending = asyncio.ensure_future(peer.send(b"x" * MUCH))
        await settle(100)
        assert not sending.done()
        transport.resume_reading()
        await sending
        await protocol.until(lambda: len(protocol.received()) == MUCH)


@pytest.mark.loopcore_only
async def test_pausing_pauses_the_carrier_at_once() -> None:
    async with secured(Recorder()) as (transport, _):
        transport.pause_reading()
        assert not transport._carrier.is_reading()
        transport.resume_reading()
        assert transport._carrier.is_reading()


@pytest.mark.parametrize("make", [Recorder, lambda: BufferedRecorder(16)], ids=["plain", "buffered"])
@pytest.mark.loopcore_only
async def test_pausing_while_receiving_leaves_the_rest_for_later(make: Any) -> None:
    protocol = make()
    async with secured(protocol) as (transport, peer):
        protocol.react["data"] = transport.pause_reading
        await peer.send(b"x" * 40)
        await protocol.seen("data")
        for rest in (24, 8, 0) if isinstance(protocol, BufferedRecorder) else (0,):
            await settle()
            assert len(protocol.received()) == 40 - rest
            transport.resume_reading()
            await settle()


async def test_what_comes_while_paused_is_delivered_before_the_end() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        transport.pause_reading()
        await peer.send(b"last words")
        await peer.notify()
        await settle(10)
        assert protocol.kinds() == ["made"]
        transport.resume_reading()
        await protocol.seen("lost")
        assert protocol.events == [("made",), ("data", b"last words"), ("eof",), ("lost", None)]


@pytest.mark.loopcore_only
async def test_the_end_of_the_stream_waits_for_a_protocol_that_pauses_while_receiving() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        protocol.react["data"] = transport.pause_reading
        view = memoryview(b"last words")
        peer.tls.write(view)
        await peer.notify()  # in one piece
        await protocol.seen("data")
        await settle(10)
        assert protocol.kinds() == ["made", "data"]
        transport.resume_reading()
        await protocol.seen("lost")
        assert protocol.kinds() == ["made", "data", "eof", "lost"]


async def test_pausing_and_resuming_twice_has_no_effect() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        transport.pause_reading()
        transport.pause_reading()
        transport.resume_reading()
        transport.resume_reading()
        await peer.send(b"x")
        await protocol.seen("data")


@pytest.mark.covers("SSLTransport.get_write_buffer_size")
async def test_a_slow_peer_pauses_the_protocol_and_a_quick_one_resumes_it() -> None:
    protocol = Recorder()
    async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
        total = 0
        while "pause" not in protocol.kinds():
            assert total < MUCH
            transport.write(b"x" * 65536)
            total += 65536
            await asyncio.sleep(0)
        assert transport.get_write_buffer_size() >= transport.get_write_buffer_limits()[1]
        assert len(await peer.receive(total)) == total
        await protocol.seen("resume")
        assert transport.get_write_buffer_size() == 0
        assert protocol.kinds() == ["made", "pause", "resume"]


@pytest.mark.differs(
    "SSLTransport.get_write_buffer_size",
    why="It also counts what the transport below still holds, so `pause_writing` comes at once; asyncio's counts only "
    "what that does not have yet.",
)
async def test_what_the_carrier_holds_is_counted(backend_name: str) -> None:
    protocol = Recorder()
    async with secured(protocol, make_pair=tcp_pair) as (transport, _):
        transport.write(b"x" * MUCH)
        assert protocol.kinds() == (["made"] if backend_name == "asyncio" else ["made", "pause"])
        await settle()
        assert (transport.get_write_buffer_size() == 0) == (backend_name == "asyncio")


@pytest.mark.loopcore_only
async def test_the_marks_count_what_the_program_wrote() -> None:
    """While the carrier is full nothing is encrypted, and each byte that is written counts as one."""
    protocol = Recorder()
    async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
        total = 0
        while not transport._carrier_full:
            transport.write(b"x" * 65536)
            total += 65536
            await asyncio.sleep(0)
        before = transport.get_write_buffer_size()
        transport.write(b"y" * 1000)
        assert transport.get_write_buffer_size() == before + 1000
        transport.set_write_buffer_limits(high=before + 1000)
        assert "pause" not in protocol.kinds()
        transport.write(b"z")
        assert protocol.kinds() == ["made", "pause"]
        await asyncio.gather(peer.receive(total + 1001), protocol.seen("resume"))


@pytest.mark.covers("SSLTransport.set_write_buffer_limits(high, low)", "SSLTransport.get_write_buffer_limits")
async def test_the_default_marks_are_those_of_asyncio() -> None:
    async with secured(Recorder()) as (transport, _):
        assert transport.get_write_buffer_limits() == (128 * 1024, 512 * 1024)
        transport.set_write_buffer_limits(low=100)
        assert transport.get_write_buffer_limits() == (100, 400)
        transport.set_write_buffer_limits(high=100)
        assert transport.get_write_buffer_limits() == (25, 100)
        transport.set_write_buffer_limits()
        assert transport.get_write_buffer_limits() == (128 * 1024, 512 * 1024)
        with pytest.raises(ValueError, match=r"high \(1\) must be >= low \(2\) must be >= 0"):
            transport.set_write_buffer_limits(high=1, low=2)


@pytest.mark.loopcore_only
async def test_marks_of_zero_pause_only_for_what_cannot_leave() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        transport.set_write_buffer_limits(0)
        transport.write(b"x" * 100)
        assert await peer.receive(100) == b"x" * 100
        assert "pause" not in protocol.kinds()


@pytest.mark.reports_errors
async def test_a_protocol_that_fails_to_pause_keeps_its_connection() -> None:
    protocol = Recorder()

    def fail() -> None:
        raise ValueError("no")

    protocol.react["pause"] = protocol.react["resume"] = fail
    async with secured(protocol, make_pair=tcp_pair) as (transport, peer):
        for _ in range(MUCH >> 16):
            transport.write(b"x" * 65536)
        assert len(await peer.receive(MUCH)) == MUCH
        assert "lost" not in protocol.kinds()


class Tapped(ssl.SSLContext):
    """A context with the outgoing bytes of its connection, to add some as TLS does when it is asked for an answer."""

    outgoing: ssl.MemoryBIO

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any) -> ssl.SSLObject:
        self.outgoing = outgoing
        return super().wrap_bio(incoming, outgoing, *args, **options)


def tapped() -> Tapped:
    context = Tapped(ssl.PROTOCOL_TLS_SERVER)
    certificate().configure_cert(context)
    return context


@pytest.mark.loopcore_only
async def test_a_peer_that_asks_for_answers_and_reads_none_is_given_up() -> None:
    protocol, context = Recorder(), tapped()
    async with secured(protocol, ssl=context) as (transport, peer):
        while not transport._carrier_full:
            transport.write(b"x" * (1 << 16))
            await settle()
        context.outgoing.write(b"x" * (1 << 16))
        await peer.send(b"still taken")
        await protocol.seen("data")
        assert not transport.is_closing()
        context.outgoing.write(b"x")
        await peer.send(b"the last")
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), ConnectionAbortedError)


@pytest.mark.loopcore_only
async def test_a_peer_that_asks_for_answers_after_the_end_is_given_up() -> None:
    protocol, context = Recorder(), tapped()
    async with secured(protocol, ssl=context) as (transport, peer):
        transport.close()
        context.outgoing.write(b"x" * ((1 << 16) + 1))
        await settle()
        assert "lost" not in protocol.kinds()
        await asyncio.get_running_loop().sock_sendall(peer.sock, b"\x17\x03\x03")  # no whole record
        await protocol.seen("lost")
