"""Messages of any size after messages of any size: what is expected to come changes nothing of what has come."""

import asyncio
import random
import socket
from typing import Any

import pytest

from tests.transports.recorder import Recorder, opened, run

Loop = asyncio.AbstractEventLoop
SIZES = (20_000, 20_000, 100_000, 8_192, 8_191, 1, 122_880, 122_881, 9_000, 300_000, 20_000, 64_000, 63_999, 64_001)


def message(number: int, size: int) -> bytes:
    return random.Random(number).randbytes(size)


async def until_received(protocol: Recorder, size: int) -> None:
    await protocol.until(lambda: len(protocol.received()) >= size)


async def test_no_byte_is_lost_or_changed_when_sizes_change() -> None:
    protocol = Recorder()
    expected = b""
    async with opened(protocol) as (_, peer):
        for number, size in enumerate(SIZES):
            sent = message(number, size)
            expected += sent
            await asyncio.get_running_loop().sock_sendall(peer, sent)
            await until_received(protocol, len(expected))
        assert protocol.received() == expected


@pytest.mark.parametrize("size", [100, 20_000], ids=["small", "large"])
async def test_no_byte_is_lost_when_descriptors_come_along(size: int) -> None:
    protocol = Recorder()
    expected = message(0, 50_000)
    async with opened(protocol) as (_, peer):
        await asyncio.get_running_loop().sock_sendall(peer, expected)
        await until_received(protocol, len(expected))
        for number in range(12):
            for _ in range(3):
                sent = message(number, size)
                expected += sent
                assert socket.send_fds(peer, [sent], [peer.fileno()] if number % 3 else []) == size
            await until_received(protocol, len(expected))
        assert protocol.received() == expected


async def test_what_was_handed_out_stays_as_it_was() -> None:
    protocol = Recorder()
    async with opened(protocol) as (_, peer):
        running = asyncio.get_running_loop()
        await running.sock_sendall(peer, message(1, 50_000))
        await until_received(protocol, 50_000)
        kept = protocol.received()
        for number in (2, 3):
            await running.sock_sendall(peer, message(number, 50_000))
            await until_received(protocol, number * 50_000)
        assert kept == message(1, 50_000)
        assert protocol.received()[:50_000] == kept


async def test_the_end_of_the_stream_comes_after_a_large_message() -> None:
    protocol = Recorder()
    async with opened(protocol) as (_, peer):
        running = asyncio.get_running_loop()
        await running.sock_sendall(peer, message(1, 50_000))
        await until_received(protocol, 50_000)
        await running.sock_sendall(peer, message(2, 30_000))
        peer.close()
        await protocol.seen("lost")
        assert protocol.received() == message(1, 50_000) + message(2, 30_000)
        assert protocol.kinds()[-2:] == ["eof", "lost"]


async def test_much_comes_in_large_pieces_after_messages_of_one_size() -> None:
    protocol = Recorder()
    async with opened(protocol) as (_, peer):
        for number in range(1, 5):
            await asyncio.get_running_loop().sock_sendall(peer, message(number, 8192))
            await until_received(protocol, number * 8192)
        begun = len(protocol.events)
        assert peer.send(message(5, 100_000)) == 100_000
        await until_received(protocol, 4 * 8192 + 100_000)
        assert len(protocol.events) - begun < 10
        assert protocol.received()[-100_000:] == message(5, 100_000)


def test_no_more_than_the_limit_comes_at_once(loop: Loop) -> None:
    protocol = Recorder()

    async def main() -> None:
        running: Any = asyncio.get_running_loop()
        async with opened(protocol) as (_, peer):
            await running.sock_sendall(peer, message(1, 30_000))
            await until_received(protocol, 30_000)
            begun = len(protocol.events)
            running.receive_limit = 16_384  # less than what is expected by now
            await running.sock_sendall(peer, message(2, 60_000))
            await until_received(protocol, 90_000)
            assert protocol.received() == message(1, 30_000) + message(2, 60_000)
            if running._completions is None:
                assert max(len(event[1]) for event in protocol.events[begun:]) == 16_384

    if hasattr(loop, "receive_limit"):
        run(loop, main())


async def test_large_messages_come_in_one_receive_each_once_some_have_come(loop: Loop) -> None:
    running: Any = asyncio.get_running_loop()
    if getattr(running, "_completions", True) is not None:
        pytest.skip("the sizes of readiness ports")
    protocol = Recorder()
    async with opened(protocol) as (_, peer):
        for number in range(1, 6):
            begun = len(protocol.events)
            protocol.transport.pause_reading()
            assert peer.send(message(number, 100_000)) == 100_000
            protocol.transport.resume_reading()
            await until_received(protocol, number * 100_000)
        assert [event[0] for event in protocol.events[begun:]] == ["data"]
