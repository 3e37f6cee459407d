"""Calls of streams as coroutines: each is another object, and is awaited once."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest

from loopcore import StreamReader
from tests.unit.streams.test_reading import call_and_forget
from tests.unit.streams.test_writing import ends

Loop = asyncio.AbstractEventLoop
Call = Callable[[StreamReader], Any]

KINDS: dict[str, Call] = {
    "read": lambda reader: reader.read(2),
    "readexactly": lambda reader: reader.readexactly(2),
    "readline": lambda reader: reader.readline(),
}


@pytest.fixture(params=KINDS)
def call(request: pytest.FixtureRequest) -> Call:
    """Calls one of the methods that are begun again, for "a" and a newline or for two bytes."""
    return KINDS[request.param]


def fed(loop: Loop, times: int = 1) -> StreamReader:
    reader = StreamReader(loop=loop)
    reader.feed_data(b"a\n" * times)
    return reader


async def test_a_call_that_is_held_is_not_begun_again(loop: Loop, call: Call) -> None:
    reader = fed(loop, 2)
    first = call(reader)
    assert await first == b"a\n"
    second = call(reader)
    assert second is not first
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        await first
    assert await second == b"a\n"
    for ended in (first, second):
        ended.close()
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            ended.send(None)


async def test_an_awaitable_of_ones_own_may_yield_from_a_call(loop: Loop, call: Call) -> None:
    class Reading:
        def __await__(self) -> Generator[Any, Any, bytes]:
            return (yield from call(reader).__await__())

    reader = StreamReader(loop=loop)
    loop.call_soon(reader.feed_data, b"a\n")
    assert await Reading() == b"a\n"


async def test_each_call_that_nobody_awaits_warns(loop: Loop, call: Call) -> None:
    reader = fed(loop, 3)
    for _ in range(2):
        assert await call(reader) == b"a\n"
        with pytest.warns(RuntimeWarning, match="was never awaited"):
            call_and_forget(partial(call, reader))
    assert await call(reader) == b"a\n"


async def test_a_call_has_nothing_of_the_one_before() -> None:
    one, other = StreamReader(limit=100), StreamReader(limit=3)
    one.feed_data(b"x" * 50 + b"\n" + b"y" * 9)
    other.feed_data(b"a\nb\nlonger")
    assert await one.readline() == b"x" * 50 + b"\n"  # its search has come far
    assert await other.readline() == b"a\n"
    assert await other.readline() == b"b\n"
    with pytest.raises(ValueError, match="chunk exceed the limit"):
        await other.readline()
    assert await one.read(4) == b"yyyy"
    assert await one.read(-1 if one.at_eof() else 2) == b"yy"
    assert await one.readexactly(3) == b"yyy"


async def test_calls_that_wait_are_each_ones_own(loop: Loop, call: Call) -> None:
    readers = [StreamReader(loop=loop) for _ in range(4)]
    for _ in range(3):
        tasks = [asyncio.create_task(call(reader)) for reader in readers]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        for reader in (*readers[:1], *readers[2:]):
            reader.feed_data(b"a\n")
        assert await asyncio.gather(tasks[0], *tasks[2:]) == [b"a\n"] * 3
        assert tasks[1].cancelled()


async def test_an_ended_call_keeps_no_reader_alive(loop: Loop, call: Call) -> None:
    reader = fed(loop)
    held = call(reader)
    assert await held == b"a\n"
    seen = weakref.ref(reader)
    del reader
    gc.collect()
    assert seen() is None
    held.close()


async def test_a_call_of_drain_is_its_writers(loop: Loop) -> None:
    (one, protocol, transport), (other, _, closing) = ends(loop), ends(loop)
    protocol.pause_writing()
    waiting = asyncio.create_task(one.drain())
    await asyncio.sleep(0)
    for _ in range(2):
        await other.drain()
        with pytest.warns(RuntimeWarning, match=r"StreamWriter\.drain' was never awaited"):
            call_and_forget(other.drain)
    held = other.drain()
    await held
    assert not waiting.done()
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        await held
    protocol.resume_writing()
    await waiting
    transport.closing = closing.closing = True
