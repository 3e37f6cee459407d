"""How much a TLS transport receives while its protocol does not read: what asyncio's has, and does not document."""

import asyncio
import socket
from typing import Any

import pytest

from tests.transports.recorder import Recorder, settle
from tests.transports.tls_support import secured

Loop = asyncio.AbstractEventLoop

LIMIT = 20_000
ONE_RECEIVE = 1 << 18
"""No transport takes more from the kernel at once."""


@pytest.mark.covers("SSLTransport.set_read_buffer_limits(high, low)", "SSLTransport.get_read_buffer_limits")
async def test_the_marks_of_reading_can_be_set() -> None:
    async with secured(Recorder()) as (transport, _):
        transport.set_read_buffer_limits(high=1000, low=10)
        assert transport.get_read_buffer_limits() == (10, 1000)
        transport.set_read_buffer_limits(high=None, low=10)
        assert transport.get_read_buffer_limits() == (10, 40)
        with pytest.raises(ValueError, match="must be >= low"):
            transport.set_read_buffer_limits(high=5, low=10)


@pytest.mark.differs(
    "SSLTransport.get_read_buffer_limits",
    why="They are 0 by default: pausing stops receiving at once; asyncio receives 256 KiB more.",
)
async def test_by_default_nothing_is_received_while_paused(backend_name: str) -> None:
    async with secured(Recorder()) as (transport, _):
        assert transport.get_read_buffer_limits() == ((65536, 262144) if backend_name == "asyncio" else (0, 0))


async def received_while_paused(transport: Any, limit: int) -> None:
    while transport.get_read_buffer_size() < limit:
        await asyncio.sleep(0)


@pytest.mark.covers("SSLTransport.get_read_buffer_size", "SSLTransport.set_read_buffer_limits(high)")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_up_to_the_mark_is_received_while_paused(when: str) -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        assert transport.get_read_buffer_size() == 0
        if when == "before":
            transport.set_read_buffer_limits(high=LIMIT)
        transport.pause_reading()
        if when == "after":
            transport.set_read_buffer_limits(high=LIMIT)
        await peer.send(b"here already")
        await received_while_paused(transport, 1)
        assert protocol.kinds() == ["made"]
        transport.resume_reading()
        await protocol.seen("data")
        assert protocol.received() == b"here already"
        assert transport.get_read_buffer_size() == 0


@pytest.mark.covers("SSLTransport.set_read_buffer_limits(high)", "SSLTransport.pause_reading")
async def test_beyond_the_mark_the_peer_is_held_up() -> None:
    data = bytes(2_000_000)
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        transport.set_read_buffer_limits(high=LIMIT)
        transport.pause_reading()
        sending = asyncio.ensure_future(peer.send(data))
        await received_while_paused(transport, LIMIT)
        await settle(50)
        assert transport.get_read_buffer_size() < LIMIT + ONE_RECEIVE
        assert not sending.done()
        transport.resume_reading()
        await sending
        await protocol.until(lambda: protocol.received() == data)


@pytest.mark.covers("SSLTransport.set_read_buffer_limits(high)", "SSLTransport.resume_reading")
async def test_an_end_that_is_received_while_paused_waits_for_the_protocol() -> None:
    protocol = Recorder()
    async with secured(protocol) as (transport, peer):
        transport.set_read_buffer_limits(high=LIMIT)
        transport.pause_reading()
        await peer.send(b"last words")
        await peer.notify()
        peer.sock.shutdown(socket.SHUT_WR)
        await settle(20)
        assert protocol.kinds() == ["made"]
        transport.resume_reading()
        await protocol.seen("lost")
        assert protocol.events == [("made",), ("data", b"last words"), ("eof",), ("lost", None)]
