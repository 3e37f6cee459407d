"""add_reader and its relatives: callbacks for descriptors."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop
Pair = tuple[socket.socket, socket.socket]


@pytest.mark.covers("EventLoop.add_reader(args)")
def test_reader_is_called_with_its_arguments_while_there_is_something_to_read(loop: Loop, pair: Pair) -> None:
    left, right = pair
    seen: list[Any] = []

    def read(*args: Any) -> None:
        seen.append((args, left.recv(1)))
        if len(seen) == 3:
            loop.stop()

    loop.add_reader(left.fileno(), read, 1, 2)
    right.send(b"abc")
    loop.run_forever()
    assert seen == [((1, 2), b"a"), ((1, 2), b"b"), ((1, 2), b"c")]
    assert loop.remove_reader(left.fileno()) is True


@pytest.mark.covers("EventLoop.add_writer")
def test_writer_is_called_while_there_is_room(loop: Loop, pair: Pair) -> None:
    seen: list[int] = []

    def write() -> None:
        seen.append(1)
        if len(seen) == 3:
            loop.remove_writer(pair[0])
            loop.call_soon(loop.stop)

    loop.add_writer(pair[0], write)
    loop.run_forever()
    assert len(seen) == 3


def test_reader_and_writer_of_one_descriptor_are_independent(loop: Loop, pair: Pair) -> None:
    left, right = pair
    seen: list[str] = []

    def read() -> None:
        seen.append("read")
        loop.remove_reader(left)

    def write() -> None:
        seen.append("write")
        loop.remove_writer(left)

    loop.add_reader(left, read)
    loop.add_writer(left, write)
    right.send(b"x")
    loop.call_later(0.02, loop.stop)
    loop.run_forever()
    assert sorted(seen) == ["read", "write"]


def test_second_reader_takes_the_place_of_the_first(loop: Loop, pair: Pair) -> None:
    left, right = pair
    loop.add_reader(left, pytest.fail, "the first was called")
    loop.add_reader(left, loop.stop)
    right.send(b"x")
    loop.run_forever()
    loop.remove_reader(left)


@pytest.mark.covers("EventLoop.remove_reader", "EventLoop.remove_writer")
def test_removing_tells_whether_there_was_something_to_remove(loop: Loop, pair: Pair) -> None:
    left, _ = pair
    assert loop.remove_reader(left) is False
    assert loop.remove_writer(left) is False
    loop.add_writer(left, print)
    assert loop.remove_reader(left) is False
    assert loop.remove_writer(left) is True
    assert loop.remove_writer(left) is False


def test_reader_removed_by_another_callback_of_the_same_tick_is_not_called(loop: Loop) -> None:
    first, second = socket.socketpair(), socket.socketpair()
    called: list[int] = []

    def read(number: int) -> None:
        called.append(number)
        loop.remove_reader(first[0])
        loop.remove_reader(second[0])
        loop.call_soon(loop.stop)

    with first[0], first[1], second[0], second[1]:
        loop.add_reader(first[0], read, 1)
        loop.add_reader(second[0], read, 2)
        first[1].send(b"x")
        second[1].send(b"x")
        loop.run_forever()
    assert len(called) == 1


@pytest.mark.parametrize("method", ["add_reader", "add_writer", "remove_reader", "remove_writer"])
@pytest.mark.parametrize("wrong", [-1, "x", 3.5, None])
def test_what_is_no_descriptor_is_refused(loop: Loop, method: str, wrong: Any) -> None:
    rest = [print] if method.startswith("add") else []
    with pytest.raises(ValueError, match=r"^Invalid file (object|descriptor): "):
        getattr(loop, method)(wrong, *rest)


def test_descriptor_that_is_not_open_is_refused(loop: Loop, backend_name: str) -> None:
    if "select" in backend_name:
        pytest.skip("select(2) tells of a bad descriptor only when it waits")
    with pytest.raises(OSError) as error:
        loop.add_reader(999, print)
    assert error.value.errno == errno.EBADF


def test_closed_loop_adds_and_removes_nothing(loop: Loop, pair: Pair) -> None:
    left, _ = pair
    loop.close()
    with pytest.raises(RuntimeError, match=r"^Event loop is closed$"):
        loop.add_reader(left, print)
    with pytest.raises(RuntimeError, match=r"^Event loop is closed$"):
        loop.add_writer(left, print)
    assert loop.remove_reader(left) is False
    assert loop.remove_writer(left) is False


async def test_descriptor_of_a_transport_is_refused(loop: Loop, pair: Pair) -> None:
    left, _ = pair
    transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, left)
    operations: list[Callable[[], Any]] = [
        lambda: loop.add_reader(left, print),
        lambda: loop.add_writer(left.fileno(), print),
        lambda: loop.remove_reader(left),
        lambda: loop.remove_writer(left.fileno()),
    ]
    for operation in operations:
        with pytest.raises(RuntimeError, match=r"^File descriptor .+ is used by transport <.+>$"):
            operation()
    with pytest.raises(RuntimeError, match=r"^File descriptor .+ is used by transport <.+>$"):
        await loop.sock_recv(left, 1)
    transport.close()
    await asyncio.sleep(0)


@pytest.mark.loopcore_only
def test_an_event_is_not_for_who_comes_in_a_tick_that_a_callback_runs_by_itself(loop: Loop) -> None:
    loop.poll_skip_ticks = 0  # type: ignore[attr-defined]
    ends = [os.pipe() for _ in range(2)]
    wrong: list[str] = []

    def reuse(own: int, other: int) -> None:
        loop.remove_reader(own)
        loop.remove_reader(other)
        os.close(other)
        loop.call_soon(lambda: None)
        loop.tick()  # type: ignore[attr-defined]
        ends.append(os.pipe())
        assert other in ends[2]
        loop.add_reader(ends[2][0], wrong.append, "an event of the descriptor's last owner")

    readers = [reader for reader, _ in ends]
    loop.add_reader(readers[0], reuse, readers[0], readers[1])
    loop.add_reader(readers[1], reuse, readers[1], readers[0])
    for _, writer in ends:
        os.write(writer, b"x")
    loop.tick()  # type: ignore[attr-defined]
    assert wrong == []
    loop.remove_reader(ends[2][0])
    for fd in {fd for pair in ends for fd in pair}:
        os.close(fd)


@pytest.mark.parametrize("method", ["remove_reader", "remove_writer"])
async def test_no_descriptor_is_none_of_those_watched(loop: Loop, pair: Pair, method: str) -> None:
    read: asyncio.Future[bytes] = loop.create_future()
    loop.add_reader(pair[0].fileno(), lambda: read.set_result(pair[0].recv(9)))
    with pytest.raises(ValueError, match="None"):
        getattr(loop, method)(None)
    pair[1].send(b"arrives")
    assert await read == b"arrives"
    loop.remove_reader(pair[0].fileno())
