"""connect_write_pipe: what reaches the other end, when, and what happens when that goes away."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopcore.transports.driver_pipe import SILENT, state_of_reader
from tests.transports.pipe_support import (
    Pair,
    drain,
    fifo_pair,
    is_closed,
    made,
    pipe_pair,
    put,
    read_some,
    socket_pair,
    terminal_pair,
)
from tests.transports.recorder import Recorder, fill, settle

PAIRS = pytest.mark.parametrize("make", [pipe_pair, socket_pair, terminal_pair])
LOSABLE = pytest.mark.parametrize("make", [pipe_pair, socket_pair])


async def connected(pipe: Any) -> tuple[Any, Recorder]:
    transport, protocol = await asyncio.get_running_loop().connect_write_pipe(Recorder, pipe)
    return transport, protocol


@pytest.mark.covers("EventLoop.connect_write_pipe", "WritePipeTransport.write", "WritePipeTransport.writelines")
@PAIRS
async def test_write_is_there_at_once(make: Callable[[], Pair]) -> None:
    with made(make) as (reading, writing):
        transport, protocol = await connected(writing)
        transport.write(b"now")
        assert read_some(reading, 10) == b"now"
        transport.writelines([b"and", bytearray(b" "), memoryview(b"then")])
        assert read_some(reading, 10) == b"and then"
        transport.close()
        await protocol.seen("lost")
        await settle()
        assert is_closed(writing)


@PAIRS
async def test_pipe_is_closed_for_who_runs_right_after_connection_lost(
    loop: asyncio.AbstractEventLoop, make: Callable[[], Pair]
) -> None:
    with made(make) as (_, writing):
        transport, protocol = await connected(writing)
        transport.abort()
        seen: list[bool] = []
        loop.call_soon(lambda: seen.append(is_closed(writing)))
        await settle(1)
        assert protocol.kinds() == ["made", "lost"]
        assert seen == [True]


@pytest.mark.covers(
    "WritePipeTransport.get_write_buffer_size", "WritePipeTransport.close", "WritePipeTransport.is_closing"
)
@LOSABLE
async def test_more_than_the_kernel_takes_is_kept_and_arrives(make: Callable[[], Pair]) -> None:
    with made(make) as (reading, writing):
        transport, protocol = await connected(writing)
        count = fill(transport)
        assert protocol.kinds() == ["made", "pause"]
        changeable = bytearray(b"y" * 1000)
        transport.write(changeable)
        changeable[:] = b"z" * 1000
        transport.close()
        assert transport.is_closing()
        assert await drain(reading, count + 1001) == b"x" * count + b"y" * 1000
        await protocol.seen("lost")
        assert protocol.kinds() == ["made", "pause", "resume", "lost"]
        assert protocol.lost_with() is None


@LOSABLE
async def test_many_small_writes_to_a_full_pipe_arrive_in_order(make: Callable[[], Pair]) -> None:
    with made(make) as (reading, writing):
        transport, protocol = await connected(writing)
        count = fill(transport)
        numbers = [b"%d," % number for number in range(3000)]
        for number in numbers:
            transport.write(number)
        rest = b"".join(numbers)
        assert (await drain(reading, count + len(rest)))[count:] == rest
        transport.close()
        await protocol.seen("lost")


@pytest.mark.differs(
    "WritePipeTransport.write", why="The protocol resumes at the low-water mark; asyncio waits until all is written."
)
@pytest.mark.loopcore_only  # asyncio waits until all is written
async def test_writing_resumes_at_the_low_water_mark() -> None:
    with made(pipe_pair) as (reading, writing):
        transport, protocol = await connected(writing)
        transport.set_write_buffer_limits(high=400_000, low=200_000)
        assert transport.get_write_buffer_limits() == (200_000, 400_000)
        transport.write(b"x" * 1_000_000)
        assert protocol.kinds() == ["made", "pause"]
        while "resume" not in protocol.kinds():
            await drain(reading, 4096)
            await settle(2)
        assert 0 < transport.get_write_buffer_size() <= 200_000
        transport.abort()
        await protocol.seen("lost")


@pytest.mark.covers("WritePipeTransport.write_eof", "WritePipeTransport.can_write_eof")
async def test_end_is_written_after_what_came_before() -> None:
    with made(pipe_pair) as (reading, writing):
        transport, protocol = await connected(writing)
        assert transport.can_write_eof()
        transport.write(b"all")
        transport.write_eof()
        transport.write_eof()
        await protocol.seen("lost")
        assert await drain(reading, 10) == b"all"
        assert protocol.kinds().count("lost") == 1


@pytest.mark.covers("WritePipeTransport.abort")
async def test_abort_drops_what_waits() -> None:
    with made(pipe_pair) as (reading, writing):
        transport, protocol = await connected(writing)
        count = fill(transport)
        left = transport.get_write_buffer_size()
        transport.abort()
        assert transport.get_write_buffer_size() == 0
        await protocol.seen("lost")
        await settle()
        assert len(await drain(reading, count)) == count - left
        assert protocol.lost_with() is None


@LOSABLE
async def test_reader_that_leaves_is_noticed(make: Callable[[], Pair]) -> None:
    with made(make) as (reading, writing):
        _, protocol = await connected(writing)
        await settle()
        reading.close()
        await protocol.seen("lost")
        await settle()
        assert protocol.lost_with() is None
        assert is_closed(writing)


@LOSABLE
async def test_reader_that_leaves_bytes_behind_breaks_the_pipe(make: Callable[[], Pair]) -> None:
    with made(make) as (reading, writing):
        transport, protocol = await connected(writing)
        fill(transport)
        reading.close()
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), (BrokenPipeError, ConnectionResetError))


async def test_writes_to_a_lost_pipe_pass_and_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with made(pipe_pair) as (reading, writing):
        transport, protocol = await connected(writing)
        reading.close()
        with caplog.at_level(logging.WARNING):
            for _ in range(8):
                transport.write(b"x")
        assert "pipe closed by peer" in caplog.text
        await protocol.seen("lost")
        assert protocol.kinds().count("lost") == 1


@pytest.mark.differs(
    "EventLoop.connect_write_pipe",
    why="Bytes from the other end of a socket do not end the transport; asyncio treats them as its closing.",
)
@pytest.mark.loopcore_only  # asyncio takes these bytes for the closing of the peer
async def test_peer_that_writes_has_not_gone() -> None:
    with made(socket_pair) as (reading, writing):
        transport, protocol = await connected(writing)
        put(reading, b"an answer, for somebody else")
        await settle()
        transport.write(b"still here")
        assert await drain(reading, 10) == b"still here"
        assert protocol.kinds() == ["made"]
        transport.close()
        await protocol.seen("lost")


@pytest.mark.loopcore_only  # likewise
async def test_fifo_opened_both_ways_has_a_reader(tmp_path: Path) -> None:
    with made(lambda: fifo_pair(tmp_path)) as (reading, _):
        both = open(os.open(tmp_path / "fifo", os.O_RDWR), "wb", 0)  # noqa: SIM115 - the transport closes it
        transport, protocol = await connected(both)
        transport.write(b"for myself")
        await settle()
        assert protocol.kinds() == ["made"]
        assert await drain(reading, 10) == b"for myself"
        transport.close()
        await protocol.seen("lost")


async def test_device_takes_everything() -> None:
    with open("/dev/null", "wb", 0) as device:
        transport, protocol = await connected(device)
        transport.write(b"x" * 1_000_000)
        assert transport.get_write_buffer_size() == 0
        transport.close()
        await protocol.seen("lost")


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
async def test_error_of_the_device_ends_it() -> None:
    with open("/dev/full", "wb", 0) as device:
        transport, protocol = await connected(device)
        transport.write(b"x")
        await protocol.seen("lost")
        assert isinstance(protocol.lost_with(), OSError)


async def test_both_directions_of_one_terminal(loop: asyncio.AbstractEventLoop) -> None:
    with made(terminal_pair) as (master, slave):
        file = open(os.dup(slave.fileno()), "r+b", 0)  # noqa: SIM115 - the transport closes it
        reader, readings = await loop.connect_read_pipe(Recorder, file)
        writer, writings = await connected(file)
        writer.write(b"question")
        assert await drain(master, 8) == b"question"
        put(master, b"answer")
        await readings.until(lambda: readings.received() == b"answer")
        reader.close()
        await readings.seen("lost")
        await settle()
        assert is_closed(file)
        writer.close()  # of a file that is closed: the number may be somebody else's by now
        await writings.seen("lost")


@pytest.mark.differs(
    "WritePipeTransport.write", why="Text raises TypeError; asyncio raises AssertionError, under python -O nothing."
)
@pytest.mark.loopcore_only  # asyncio: AssertionError
async def test_text_is_refused() -> None:
    with made(pipe_pair) as (_, writing):
        transport, protocol = await connected(writing)
        with pytest.raises(TypeError, match="bytes-like"):
            transport.write("text")
        transport.write(b"")
        transport.close()
        await protocol.seen("lost")


@pytest.mark.covers(
    "WritePipeTransport.get_extra_info('pipe')",
    "WritePipeTransport.get_protocol",
    "WritePipeTransport.set_write_buffer_limits(high, low)",
    "WritePipeTransport.get_write_buffer_limits",
)
async def test_facts() -> None:
    with made(pipe_pair) as (_, writing):
        transport, protocol = await connected(writing)
        assert isinstance(transport, asyncio.WriteTransport)
        assert isinstance(transport, asyncio.Transport)
        assert transport.get_extra_info("pipe") is writing
        assert transport.get_protocol() is protocol
        assert transport.get_write_buffer_limits() == (16384, 65536)
        with pytest.raises(ValueError, match="must be >= low"):
            transport.set_write_buffer_limits(high=1, low=2)
        assert "bufsize=0" in repr(transport)
        for method in ("pause_reading", "resume_reading", "is_reading"):  # libraries catch it (issue 32)
            with pytest.raises(NotImplementedError):
                getattr(transport, method)()
        assert transport._closing is False
        transport.close()
        assert transport._closing is True
        await protocol.seen("lost")
        await settle()
        assert "closed" in repr(transport)


def test_a_silent_reader_has_not_left_although_sockets_have_a_default_timeout() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.setdefaulttimeout(0.01)
        try:
            assert state_of_reader(ours.fileno()) is SILENT
        finally:
            socket.setdefaulttimeout(None)
