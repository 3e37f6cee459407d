"""What a protocol writes while it is given data: it leaves once, in order, whatever else the protocol does then.

Over readiness it leaves as soon as the event has been dealt with. Compiled, the bytes that have gone serve for what
comes next.
"""

import asyncio
import socket
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from tests.transports.recorder import opened, receive, receive_all, run, waiting

Loop = asyncio.AbstractEventLoop


class Answer(asyncio.Protocol):
    """Does with each piece of data what it is told to."""

    def __init__(self, act: Callable[[Any, bytes], object]) -> None:
        self.act = act

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.act(self.transport, data)


class AnswerFromBuffer(asyncio.BufferedProtocol):
    """The same for what is received into a buffer."""

    def __init__(self, act: Callable[[Any, bytes], object]) -> None:
        self.act = act
        self.buffer = bytearray(1024)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.act(self.transport, bytes(self.buffer[:nbytes]))


@pytest.mark.parametrize("size", [2, 100, 1024, 16_384])
async def test_what_the_protocol_keeps_stays_as_it_is(loop: Loop, size: int) -> None:
    kept: list[bytes] = []

    def keep_each_third(transport: Any, data: bytes) -> None:
        if data[0] % 3 == 0:
            kept.append(data)
        transport.write(data)

    messages = [bytes([i]) * (size - i % 2) for i in range(1, 40)]
    async with opened(Answer(keep_each_third)) as (_, peer):
        for message in messages:
            await loop.sock_sendall(peer, message)
            assert await receive(peer, len(message)) == message
    assert b"".join(kept) == b"".join(messages[2::3])


async def test_what_a_view_shows_stays_as_it_is(loop: Loop) -> None:
    views: list[memoryview] = []

    def view(transport: Any, data: bytes) -> None:
        views.append(memoryview(data)[:3])
        transport.write(data)

    async with opened(Answer(view)) as (_, peer):
        for i in range(1, 20):
            await loop.sock_sendall(peer, bytes([i]) * 500)
            assert await receive(peer, 500) == bytes([i]) * 500
    assert b"".join(views) == b"".join(bytes([i]) * 3 for i in range(1, 20))


async def test_what_is_kept_takes_no_more_room_than_it_has_bytes(loop: Loop) -> None:
    kept: list[bytes] = []

    def keep_small_ones(transport: Any, data: bytes) -> None:
        if len(data) == 64:
            kept.append(data)
        transport.write(b"x")

    sizes = [60_000]
    while sizes[-1] > 64:
        sizes.append(max(64, sizes[-1] // 2 + 1))  # each serves for the next
    tracemalloc.start()
    try:
        async with opened(Answer(keep_small_ones)) as (_, peer):
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(40):
                for size in sizes:
                    await loop.sock_sendall(peer, bytes(size))
                    await receive(peer, 1)
            grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(kept) == 40
    assert grown < 40 * 500 + 130_000  # one message stays allocated


async def test_bytes_are_told_apart_by_their_hash(loop: Loop) -> None:
    seen: set[int] = set()

    def note(transport: Any, data: bytes) -> None:
        seen.add(hash(data))
        assert {data: 1}[bytes(bytearray(data))]
        transport.write(data)

    async with opened(Answer(note)) as (_, peer):
        for i in range(1, 20):
            await loop.sock_sendall(peer, bytes([i]) * 500)
            assert await receive(peer, 500) == bytes([i]) * 500
    assert len(seen) == 19


async def test_answers_and_later_writes_keep_their_order(loop: Loop) -> None:
    def answer(transport: Any, data: bytes) -> None:
        transport.write(b"1")
        loop.call_soon(transport.write, b"3")
        transport.write(b"2")
        if data == b"end":
            loop.call_soon(transport.close)

    async with opened(Answer(answer)) as (_, peer):
        await loop.sock_sendall(peer, b"one")
        assert await receive(peer, 3) == b"123"
        await loop.sock_sendall(peer, b"end")
        assert await receive_all(peer) == b"123"


async def test_a_protocol_that_writes_to_another_transport_reaches_both(loop: Loop) -> None:
    async with opened(Answer(lambda *_: None)) as (other, other_peer):

        def answer(transport: Any, data: bytes) -> None:
            transport.write(b"to you")
            other.write(b"to the other")
            transport.write(b", again")

        async with opened(Answer(answer)) as (_, peer):
            await loop.sock_sendall(peer, b"x")
            assert await receive(other_peer, 12) == b"to the other"
            assert await receive(peer, 13) == b"to you, again"


@pytest.mark.loopcore_only
async def test_an_answer_does_not_overtake_what_was_written_to_another_before(loop: Any) -> None:
    seen: list[tuple[bytes, bytes]] = []
    async with opened(Answer(lambda *_: None)) as (other, other_peer):

        def answer(transport: Any, data: bytes) -> None:
            other.write(b"first")
            transport.write(b"second")
            loop.call_immediate(lambda: seen.append((waiting(other_peer), waiting(peer))))

        async with opened(Answer(answer)) as (_, peer):
            await loop.sock_sendall(peer, b"x")
            assert await receive(other_peer, 5) == b"first"
            assert await receive(peer, 6) == b"second"
    assert seen[0] in [(b"", b""), (b"first", b"")]


@pytest.mark.loopcore_only
@pytest.mark.parametrize("protocol_class", [Answer, AnswerFromBuffer])
async def test_an_answer_leaves_with_its_event_if_nothing_waits(loop: Any, protocol_class: Any) -> None:
    if loop._completions is not None:
        pytest.skip("over completions a send is submitted with the next wait")
    seen: list[bytes] = []

    def answer(transport: Any, data: bytes) -> None:
        transport.write(b"an ")
        transport.write(b"answer")
        loop.call_immediate(lambda: seen.append(waiting(peers[0])))

    peers: list[socket.socket] = []
    async with opened(protocol_class(answer)) as (_, peer):
        peers.append(peer)
        await loop.sock_sendall(peer, b"x")
        assert await receive(peer, 9) == b"an answer"
    assert seen == [b"an answer"]


async def test_an_answer_before_close_or_abort_leaves(loop: Loop) -> None:
    for end in ("close", "abort"):

        def answer(transport: Any, data: bytes, end: str = end) -> None:
            transport.write(b"last words")
            getattr(transport, end)()

        async with opened(Answer(answer)) as (_, peer):
            await loop.sock_sendall(peer, b"x")
            assert await receive_all(peer) == b"last words"


def test_an_answer_is_not_lost_when_the_protocol_ends_the_run(loop: Loop) -> None:
    def answer(transport: Any, data: bytes) -> None:
        transport.write(b"before")
        raise SystemExit(3)

    async def main() -> None:
        async with opened(Answer(answer)) as (_, peer):
            loop.call_soon(held.append, peer)
            await loop.sock_sendall(peer, b"x")
            await asyncio.Event().wait()

    async def read(peer: socket.socket) -> bytes:
        return await receive(peer, 6)

    held: list[socket.socket] = []
    task = loop.create_task(main())
    with pytest.raises(SystemExit):
        loop.run_until_complete(task)
    assert run(loop, read(held[0])) == b"before"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)


async def test_a_peer_that_reads_slowly_pauses_who_answers(loop: Loop) -> None:
    """Answers that the kernel has no room for are kept, and all arrive."""

    class Counting(Answer):
        paused = resumed = 0

        def pause_writing(self) -> None:
            self.paused += 1

        def resume_writing(self) -> None:
            self.resumed += 1

    protocol = Counting(lambda transport, data: transport.write(data * 40_000))
    async with opened(protocol) as (_, peer):
        total = 0
        for _ in range(8):
            await loop.sock_sendall(peer, b"x" * 32)
            total += 32 * 40_000
        got = await receive(peer, total)
        assert got == b"x" * total
        while protocol.resumed < protocol.paused:
            await asyncio.sleep(0)
    assert protocol.paused == protocol.resumed > 0


async def test_a_large_message_that_has_gone_is_let_go_of() -> None:
    tracemalloc = pytest.importorskip("tracemalloc")  # PyPy has none
    size = 4 << 20
    async with opened(asyncio.Protocol()) as (transport, peer):
        tracemalloc.start()
        try:
            transport.write(bytes(size))
            for _ in range(size // 65_536):
                await receive(peer, 65_536)
            assert tracemalloc.get_traced_memory()[0] < size // 2
        finally:
            tracemalloc.stop()
