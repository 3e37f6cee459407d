"""StreamReader where it has something of its own: cancellation, backpressure, small pieces, being a coroutine."""

import asyncio
import gc
import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from loopcore import StreamReader
from tests.unit.streams.test_model import Pausable


async def begun(call: Any) -> "asyncio.Task[Any]":
    task = asyncio.ensure_future(call)
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("name", "args"), [("read", (-1,)), ("readexactly", (9,)), ("readuntil", (b"#",)), ("readline", ())]
)
async def test_a_cancelled_read_loses_nothing(name: str, args: tuple[Any, ...]) -> None:
    reader = StreamReader()
    reader.feed_data(b"abc")
    task = await begun(getattr(reader, name)(*args))
    reader.feed_data(b"def")
    await asyncio.sleep(0)
    await cancelled(task)
    assert await reader.readexactly(6) == b"abcdef"


async def test_bytes_that_came_with_the_cancellation_stay() -> None:
    reader = StreamReader()
    task = await begun(reader.read(10))
    reader.feed_data(b"abc")  # wakes the task, which is cancelled before it runs
    await cancelled(task)
    assert await reader.read(10) == b"abc"


async def test_a_tuple_of_separators_is_taken_on_every_python() -> None:
    reader = StreamReader()
    reader.feed_data(b"one\r\ntwo\nthree")
    reader.feed_eof()
    assert await reader.readuntil((b"\r\n", b"\n")) == b"one\r\n"
    assert await reader.readuntil((b"\r\n", b"\n")) == b"two\n"
    with pytest.raises(asyncio.IncompleteReadError):
        await reader.readuntil((b"\r\n", b"\n"))


async def test_reading_is_paused_beyond_twice_the_limit_and_resumed_at_the_limit() -> None:
    reader, transport = StreamReader(limit=10), Pausable()
    reader.set_transport(transport)
    reader.feed_data(b"x" * 20)
    assert not transport.paused
    reader.feed_data(b"x")
    assert transport.paused
    await reader.readexactly(10)
    assert transport.paused
    await reader.readexactly(1)
    assert not transport.paused


async def test_reading_is_not_paused_while_a_call_waits_for_more_than_that() -> None:
    reader, transport = StreamReader(limit=10), Pausable()
    reader.set_transport(transport)
    reader.feed_data(b"x" * 30)
    assert transport.paused
    task = await begun(reader.readexactly(60))
    assert not transport.paused
    reader.feed_data(b"x" * 20)
    assert not transport.paused
    reader.feed_data(b"y" * 40)
    assert transport.paused
    assert await task == b"x" * 50 + b"y" * 10


async def test_a_transport_that_cannot_be_paused_is_not_asked_again() -> None:
    reader = StreamReader(limit=1)
    reader.set_transport(asyncio.Transport())
    reader.feed_data(b"abc")
    reader.feed_data(b"def")
    assert await reader.read(10) == b"abcdef"


async def test_a_second_reader_is_refused() -> None:
    reader = StreamReader()
    task = await begun(reader.read(1))
    with pytest.raises(RuntimeError, match=r"readexactly\(\) called while another coroutine is already waiting"):
        await reader.readexactly(1)
    await cancelled(task)


@pytest.mark.parametrize(
    ("name", "args", "told"),
    [("read", (1,), "read"), ("readexactly", (1,), "readexactly"), ("readline", (), "readuntil")],
)
@pytest.mark.parametrize("kind", [asyncio.StreamReader, StreamReader])
async def test_what_comes_while_all_is_waited_for_is_nobody_elses(
    kind: type[asyncio.StreamReader], name: str, args: tuple[Any, ...], told: str
) -> None:
    reader = kind()
    task = await begun(reader.read())
    reader.feed_data(b"one\ntwo\n")
    await asyncio.sleep(0)
    assert await reader.read(0) == b""
    with pytest.raises(RuntimeError, match=rf"{told}\(\) called while another coroutine is already waiting"):
        await getattr(reader, name)(*args)
    reader.feed_eof()
    assert await task == b"one\ntwo\n"


@pytest.mark.parametrize("kind", [asyncio.StreamReader, StreamReader])
async def test_an_error_after_the_end_is_raised_by_a_call_that_waits_for_all(kind: type[asyncio.StreamReader]) -> None:
    reader = kind()
    task = await begun(reader.read())
    reader.feed_data(b"x")
    reader.feed_eof()
    reader.set_exception(ValueError("late"))
    with pytest.raises(ValueError, match="late"):
        await task


def test_single_bytes_are_not_kept_as_objects(loop: asyncio.AbstractEventLoop) -> None:
    reader = StreamReader(loop=loop)
    tracemalloc = pytest.importorskip("tracemalloc")  # PyPy has none
    tracemalloc.start()
    try:
        for number in range(100_000):
            reader.feed_data(b"%c" % (number % 251))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 300_000
    reader.feed_eof()
    whole = loop.run_until_complete(reader.read())
    assert whole == bytes(number % 251 for number in range(100_000))


async def test_what_was_read_does_not_pile_up_before_what_was_not() -> None:
    tracemalloc = pytest.importorskip("tracemalloc")  # as above
    reader = StreamReader()
    tracemalloc.start()
    try:
        reader.feed_data(b"ab")
        for _ in range(50_000):
            reader.feed_data(b"abcd")  # there is always something unread, so the buffer is never exchanged
            await reader.readexactly(4)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 50_000


async def test_a_call_is_a_coroutine() -> None:
    reader = StreamReader()
    call = reader.read(3)
    assert asyncio.iscoroutine(call)
    assert inspect.isawaitable(call)
    task = asyncio.create_task(call)
    assert "StreamReader.read" in repr(task)
    reader.feed_data(b"abcdef")
    assert await task == b"abc"
    assert await asyncio.wait_for(reader.readexactly(3), 10) == b"def"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readline(), 0)


async def test_a_call_can_be_awaited_once() -> None:
    reader = StreamReader()
    reader.feed_data(b"abcdef")
    call = reader.read(3)
    assert await call == b"abc"
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        await call
    assert await reader.read(3) == b"def"


async def test_a_call_does_nothing_before_it_is_awaited() -> None:
    reader = StreamReader()
    reader.feed_data(b"abc")
    call = reader.readexactly(-1)
    call.close()
    with pytest.raises(ValueError, match="less than zero"):
        await reader.readexactly(-1)
    first, second = reader.read(1), reader.read(1)
    assert (await second, await first) == (b"a", b"b")


def call_and_forget(call: Callable[[], Any]) -> None:
    """Have what `call` returns be gone, also where references are not counted."""
    call()
    gc.collect()


def test_a_call_that_nobody_awaits_warns(loop: asyncio.AbstractEventLoop) -> None:
    reader = StreamReader(loop=loop)
    with pytest.warns(RuntimeWarning, match=r"coroutine 'StreamReader\.readline' was never awaited"):
        call_and_forget(reader.readline)


async def test_a_call_that_is_dropped_while_it_waits_leaves_room_for_another() -> None:
    reader = StreamReader()
    call = reader.read(1)
    call.send(None)
    del call
    reader.feed_data(b"a")
    assert await reader.read(1) == b"a"


def test_a_future_that_is_not_done_is_an_error_and_not_a_result(loop: asyncio.AbstractEventLoop) -> None:
    reader = StreamReader(loop=loop)
    call = reader.read(1)
    assert asyncio.isfuture(call.send(None))
    with pytest.raises(RuntimeError, match="await wasn't used with future"):
        call.send(None)


async def test_exceptions_reach_who_waits_and_who_comes_later() -> None:
    reader = StreamReader()
    task = await begun(reader.readline())
    error = ConnectionResetError("gone")
    reader.set_exception(error)
    for call in (task, reader.read(), reader.readexactly(1), reader.readuntil()):
        with pytest.raises(ConnectionResetError, match="gone"):
            await call
    assert reader.exception() is error


def test_what_asyncio_takes_as_bytes_is_taken(loop: asyncio.AbstractEventLoop) -> None:
    reader = StreamReader(loop=loop)
    for data in (bytearray(b"ab"), memoryview(b"cd"), b"", b"ef"):
        reader.feed_data(data)
    with pytest.raises(TypeError):
        reader.feed_data("text")
    assert loop.run_until_complete(reader.read(10)) == b"abcdef"


def test_limits_may_be_any_positive_numbers(loop: asyncio.AbstractEventLoop) -> None:
    for limit in (0, -1):
        with pytest.raises(ValueError, match="Limit cannot be <= 0"):
            StreamReader(limit, loop)
    for large in (float("inf"), sys.maxsize, 1 << 80):
        reader = StreamReader(large, loop)  # type: ignore[arg-type]
        reader.feed_data(b"x" * 70_000 + b"\n")
        assert len(loop.run_until_complete(reader.readline())) == 70_001


def test_a_reader_looks_like_asyncios_and_takes_attributes(loop: asyncio.AbstractEventLoop) -> None:
    reader: Any = StreamReader(limit=5, loop=loop)
    assert isinstance(reader, asyncio.StreamReader)
    reader.feed_data(b"abc")
    reader.label = "mine"
    assert repr(reader) == "<StreamReader 3 bytes limit=5>"
    assert reader.label == "mine"
