"""Backpressure, both ways: water marks, pause and resume."""

import asyncio
from typing import Any

import pytest

from tests.transports.recorder import (
    BufferedRecorder,
    Handled,
    Recorder,
    fill,
    opened,
    receive,
    receive_all,
    settle,
    tcp_pair,
)

Loop = asyncio.AbstractEventLoop
SIZE = 1 << 20


@pytest.mark.covers("Transport.set_write_buffer_limits(high, low)", "Transport.get_write_buffer_limits")
async def test_the_limits_are_asyncios() -> None:
    async with opened(Recorder()) as (transport, _):
        assert transport.get_write_buffer_limits() == (16384, 65536)
        transport.set_write_buffer_limits(high=1000)
        assert transport.get_write_buffer_limits() == (250, 1000)
        transport.set_write_buffer_limits(low=1000)
        assert transport.get_write_buffer_limits() == (1000, 4000)
        transport.set_write_buffer_limits(high=3, low=2)
        assert transport.get_write_buffer_limits() == (2, 3)
        transport.set_write_buffer_limits()
        assert transport.get_write_buffer_limits() == (16384, 65536)
        with pytest.raises(ValueError, match=r"high \(1\) must be >= low \(2\) must be >= 0"):
            transport.set_write_buffer_limits(high=1, low=2)
        with pytest.raises(ValueError, match="must be >= 0"):
            transport.set_write_buffer_limits(high=1, low=-1)
        assert transport.get_write_buffer_limits() == (16384, 65536)


@pytest.mark.covers("Transport.get_write_buffer_size")
async def test_a_protocol_is_paused_once_and_resumed_once() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        total = fill(transport)
        assert protocol.kinds() == ["made", "pause"]
        transport.write(b"x" * SIZE)
        await settle()
        assert protocol.kinds() == ["made", "pause"]
        assert await receive(peer, total + SIZE) == b"x" * (total + SIZE)
        await protocol.seen("resume")
        assert protocol.kinds() == ["made", "pause", "resume"]
        assert transport.get_write_buffer_size() == 0


async def test_resume_comes_at_the_low_water_mark() -> None:
    protocol = Recorder()
    sizes = []
    async with opened(protocol) as (transport, peer):
        transport.set_write_buffer_limits(high=300_000, low=200_000)
        protocol.react["resume"] = lambda: sizes.append(transport.get_write_buffer_size())
        transport.write(b"x" * 3_000_000)
        receiving = asyncio.ensure_future(receive(peer, 3_000_000))
        await protocol.seen("resume")
        assert len(await receiving) == 3_000_000
    assert len(sizes) == 1
    assert sizes[0] <= 200_000


async def test_what_the_kernel_takes_at_once_pauses_nobody() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        transport.set_write_buffer_limits(high=0)
        for _ in range(10):
            transport.write(b"x" * 1000)
        assert await receive(peer, 10_000) == b"x" * 10_000
    assert "pause" not in protocol.kinds()


async def test_lowering_the_limits_pauses_who_is_above_them_now() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        transport.set_write_buffer_limits(high=100 * SIZE)
        total = fill(transport)
        assert protocol.kinds() == ["made"]
        transport.set_write_buffer_limits(high=10)
        assert protocol.kinds() == ["made", "pause"]
        assert len(await receive(peer, total)) == total
        await protocol.seen("resume")


async def test_writing_while_resumed_pauses_again() -> None:
    protocol = Recorder()

    def write_more() -> None:
        if protocol.kinds().count("resume") <= 3:
            protocol.transport.write(b"y" * SIZE)

    async with opened(protocol) as (transport, peer):
        protocol.react["resume"] = write_more
        total = fill(transport) + 3 * SIZE
        got = await receive(peer, total)
        assert got == b"x" * (total - 3 * SIZE) + b"y" * (3 * SIZE)
        await protocol.seen("resume", 4)
    assert protocol.kinds().count("pause") == 4


@pytest.mark.parametrize("which", ["pause_writing", "resume_writing"])
async def test_an_error_in_pause_or_resume_is_reported_and_the_connection_lives(loop: Loop, which: str) -> None:
    handled = Handled(loop)
    protocol = Recorder()

    def fail() -> None:
        raise ZeroDivisionError

    protocol.react[which.removesuffix("_writing")] = fail
    async with opened(protocol) as (transport, peer):
        total = fill(transport)
        assert len(await receive(peer, total)) == total
        await protocol.seen("resume")
        transport.write(b"alive")
        assert await receive(peer, 5) == b"alive"
        assert handled.messages() == [f"protocol.{which}() failed"]
        (context,) = handled.contexts
        assert isinstance(context["exception"], ZeroDivisionError)
        assert context["transport"] is transport
        assert context["protocol"] is protocol


@pytest.mark.covers("Transport.pause_reading", "Transport.resume_reading", "Transport.is_reading")
@pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
async def test_nothing_is_received_while_reading_is_paused(loop: Loop, make: Any) -> None:
    protocol = make()
    async with opened(protocol) as (transport, peer):
        assert transport.is_reading()
        transport.pause_reading()
        transport.pause_reading()
        assert not transport.is_reading()
        await loop.sock_sendall(peer, b"wait")
        await settle(10)
        assert protocol.received() == b""
        transport.resume_reading()
        transport.resume_reading()
        assert transport.is_reading()
        await protocol.until(lambda: protocol.received() == b"wait")


@pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
async def test_pausing_while_receiving_holds_back_the_rest(loop: Loop, make: Any) -> None:
    protocol = make()
    protocol.buffer = bytearray(50_000)
    async with opened(protocol, tcp_pair) as (transport, peer):
        protocol.react["data"] = transport.pause_reading
        sending = asyncio.ensure_future(loop.sock_sendall(peer, b"x" * SIZE))
        await protocol.seen("data")
        await settle(10)
        assert protocol.kinds().count("data") == 1
        protocol.react.clear()
        transport.resume_reading()
        await protocol.until(lambda: len(protocol.received()) == SIZE)
        await sending


async def test_paused_in_connection_made_reads_only_when_resumed(loop: Loop) -> None:
    protocol = Recorder()
    protocol.react["made"] = lambda: protocol.transport.pause_reading()
    async with opened(protocol) as (transport, peer):
        await loop.sock_sendall(peer, b"early")
        await settle(10)
        assert protocol.received() == b""
        transport.resume_reading()
        await protocol.until(lambda: protocol.received() == b"early")


async def test_pause_and_resume_after_close_do_nothing() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, _):
        transport.pause_reading()
        transport.close()
        transport.resume_reading()
        transport.pause_reading()
        assert not transport.is_reading()
        await protocol.seen("lost")


async def test_a_writer_that_is_not_read_holds_no_more_than_it_wrote() -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        total = fill(transport)
        transport.close()
        assert transport.get_write_buffer_size() > 0
        assert len(await receive_all(peer)) == total
        await protocol.seen("lost")
    assert protocol.lost_with() is None


class Bare:
    """A protocol without the methods of flow control."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        pass

    def data_received(self, data: bytes) -> None:
        pass

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(exc)


@pytest.mark.reports_errors
async def test_a_protocol_that_cannot_be_paused_is_reported_and_its_transport_closes(loop: Loop) -> None:
    reported: list[str] = []
    loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
    protocol: Any = Bare()
    async with opened(protocol) as (transport, peer):
        total = fill(transport)
        transport.close()
        assert len(await receive(peer, total)) == total
        assert await protocol.lost is None
        assert reported == ["protocol.pause_writing() failed", "protocol.resume_writing() failed"]


@pytest.mark.loopcore_only  # asyncio's transport never closes
@pytest.mark.parametrize("end", ["close", "write_eof"])
def test_a_protocol_that_ends_the_run_as_it_is_resumed_keeps_its_transport_from_nothing(loop: Loop, end: str) -> None:
    protocol = Recorder()

    def leave() -> None:
        raise SystemExit

    async def main() -> None:
        async with opened(protocol) as (transport, peer):
            total = fill(transport)
            getattr(transport, end)()
            protocol.react["resume"] = leave
            assert len(await receive(peer, total)) == total
            assert await receive_all(peer) == b""

    task = loop.create_task(main())
    with pytest.raises(SystemExit):
        loop.run_until_complete(task)
    loop.run_until_complete(task)
