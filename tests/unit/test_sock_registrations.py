"""What sock_* operations tell the backend: a registration lasts from one read of a socket to the next."""

import asyncio
import gc
import os
import select
import socket
from collections.abc import Coroutine, Iterator

import pytest

import loopcore

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the kernel keeps registrations with epoll(7)")

Pair = tuple[socket.socket, socket.socket]
Call = tuple[str, int]


class Told:
    """epoll, and what it was told."""

    def __init__(self) -> None:
        from loopcore_backends.epoll import EpollBackend

        self._epoll = EpollBackend()
        self.name, self.capabilities = self._epoll.name, self._epoll.capabilities
        self.wait, self.wake, self.close = self._epoll.wait, self._epoll.wake, self._epoll.close
        self.calls: list[Call] = []

    @classmethod
    def probe(cls) -> object:
        raise NotImplementedError

    def register(self, fd: int, interest: int) -> None:
        self.calls.append(("register", fd))
        self._epoll.register(fd, interest)

    def modify(self, fd: int, interest: int) -> None:
        self.calls.append(("modify", fd))
        self._epoll.modify(fd, interest)

    def unregister(self, fd: int) -> None:
        self.calls.append(("unregister", fd))
        self._epoll.unregister(fd)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def loop(told: Told) -> Iterator[loopcore.EventLoop]:
    made = loopcore.EventLoop(told)  # type: ignore[arg-type]
    yield made
    made.close()


def new_pair() -> Pair:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    return left, right


async def receive_late(sock: socket.socket, peer: socket.socket, size: int = 10) -> bytes:
    """Receive what the peer sends once somebody waits for it."""
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, peer.send, b"data")
    return await loop.sock_recv(sock, size)


def drop(only: list[socket.socket]) -> None:
    """Let go of the only reference to a socket."""
    only.clear()
    gc.collect()


async def sweeps() -> None:
    """Let more ticks pass than a registration is kept for."""
    for _ in range(8):
        await asyncio.sleep(0)


async def test_one_registration_serves_many_reads(loop: loopcore.EventLoop, told: Told, pair: Pair) -> None:
    left, right = pair
    for _ in range(5):
        assert await receive_late(left, right) == b"data"
        await loop.sock_sendall(left, b"answer")
    assert told.calls == [("register", left.fileno())]


async def test_it_outlasts_a_wait_in_a_task_of_its_own(told: Told, pair: Pair) -> None:
    left, right = pair
    for _ in range(3):
        assert await asyncio.wait_for(asyncio.ensure_future(receive_late(left, right)), 60) == b"data"
    assert told.calls.count(("register", left.fileno())) == 1


async def test_it_ends_when_nobody_reads_on(loop: loopcore.EventLoop, told: Told, pair: Pair) -> None:
    left, right = pair
    await receive_late(left, right)
    await sweeps()
    assert told.calls == [("register", left.fileno()), ("unregister", left.fileno())]
    assert loop._readiness.watched() == []


async def test_the_end_of_the_stream_ends_it_at_once(loop: loopcore.EventLoop, told: Told, pair: Pair) -> None:
    left, right = pair
    loop.call_soon(loop.call_soon, right.close)
    assert await loop.sock_recv(left, 10) == b""
    assert told.calls == [("register", left.fileno()), ("unregister", left.fileno())]


async def test_another_socket_with_the_number_is_registered_anew(told: Told, pair: Pair) -> None:
    left, right = pair
    await receive_late(left, right)
    number = left.fileno()
    left.close()
    here, there = new_pair()
    with here, there:
        assert here.fileno() == number
        assert await receive_late(here, there) == b"data"


async def test_the_same_descriptor_in_another_socket_object_is_read(pair: Pair) -> None:
    left, right = pair
    await receive_late(left, right)
    with socket.socket(fileno=left.detach()) as again:
        assert await receive_late(again, right) == b"data"


async def test_a_socket_that_is_dropped_is_not_kept_alive() -> None:
    left, right = new_pair()
    await receive_late(left, right)
    only = [left]
    del left
    with right:
        with pytest.warns(ResourceWarning, match="unclosed"):
            drop(only)
        assert right.recv(1) == b""
    await sweeps()


async def test_a_reader_in_the_meantime_takes_the_number_over(loop: loopcore.EventLoop, pair: Pair) -> None:
    left, right = pair
    await receive_late(left, right)
    came: asyncio.Future[None] = loop.create_future()
    loop.add_reader(left, lambda: came.done() or came.set_result(None))
    await sweeps()
    right.send(b"more")
    await came
    assert loop.remove_reader(left) is True
    assert await loop.sock_recv(left, 10) == b"more"


async def test_it_is_no_watch_that_could_be_removed(loop: loopcore.EventLoop, pair: Pair) -> None:
    left, right = pair
    await receive_late(left, right)
    assert loop.remove_reader(left) is False
    assert await receive_late(left, right) == b"data"


async def test_a_writer_beside_it_is_served(loop: loopcore.EventLoop, pair: Pair) -> None:
    left, right = pair
    await receive_late(left, right)
    writable: asyncio.Future[None] = loop.create_future()
    loop.add_writer(left, lambda: writable.done() or writable.set_result(None))
    await writable
    assert await receive_late(left, right) == b"data"
    await sweeps()
    assert loop.remove_writer(left) is True
    assert loop._readiness.watched() == []


async def test_a_read_that_got_all_it_asked_for_is_followed_by_a_try(loop: loopcore.EventLoop, pair: Pair) -> None:
    left, right = pair
    assert await receive_late(left, right, 2) == b"da"
    rest = loop.sock_recv(left, 10)
    with pytest.raises(StopIteration) as end:
        rest.send(None)
    assert end.value.value == b"ta"


async def test_a_read_that_got_less_is_followed_by_a_wait(loop: loopcore.EventLoop, pair: Pair) -> None:
    left, right = pair
    buffer = bytearray(10)
    loop.call_soon(loop.call_soon, right.send, b"data")
    assert await loop.sock_recv_into(left, buffer) == 4
    right.send(b"more")
    assert await loop.sock_recv(left, 10) == b"more"


async def test_a_read_that_asks_for_nothing_or_nonsense_does_not_wait(loop: loopcore.EventLoop, pair: Pair) -> None:
    left, right = pair

    def at_once(reading: Coroutine[object, object, object]) -> object:
        try:
            reading.send(None)
        except StopIteration as end:
            return end.value
        except (TypeError, ValueError) as exc:
            return type(exc)
        reading.close()
        return "waits"

    for reading, answer in (
        (lambda: loop.sock_recv(left, 0), b""),
        (lambda: loop.sock_recv(left, -1), ValueError),
        (lambda: loop.sock_recv(left, "1"), TypeError),  # type: ignore[arg-type]
        (lambda: loop.sock_recv_into(left, bytearray()), 0),
        (lambda: loop.sock_recv_into(left, memoryview(b"abc")), TypeError),
        (lambda: loop.sock_recv_into(left, b"abc"), TypeError),
        (lambda: loop.sock_recv_into(left, bytearray(1)), "waits"),
    ):
        await receive_late(left, right)
        assert at_once(reading()) == answer


def test_a_loop_that_stands_still_in_between_reads_on(loop: loopcore.EventLoop, pair: Pair) -> None:
    left, right = pair
    for _ in range(3):
        assert loop.run_until_complete(receive_late(left, right)) == b"data"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork(2)")
async def test_a_number_that_was_closed_while_a_copy_lives_elsewhere_is_not_reported(
    loop: loopcore.EventLoop, told: Told, pair: Pair
) -> None:
    # A copy of the descriptor stands for one in another process: the file stays in the kernel's table.
    left, right = pair
    await receive_late(left, right)
    with left.dup():
        left.close()
        await sweeps()
        right.send(b"for the copy")
        before = loop.counters().events
        for _ in range(100):
            await asyncio.sleep(0)
        assert loop.counters().events - before <= 1
    assert told.calls[-1][0] == "unregister"


@pytest.mark.parametrize("reads_on", [True, False])
async def test_a_copy_elsewhere_does_not_wake_the_loop_for_the_next_file_of_the_number(
    loop: loopcore.EventLoop, pair: Pair, reads_on: bool
) -> None:
    left, right = pair
    await receive_late(left, right)
    number = left.fileno()
    with left.dup():
        left.close()
        here, there = new_pair()
        with here, there:
            assert here.fileno() == number
            waiting = asyncio.ensure_future(loop.sock_recv(here, 10))
            await sweeps()
            if not reads_on:
                waiting.cancel()
                await asyncio.wait([waiting])
            right.send(b"for the copy")
            before = loop.counters().events
            for _ in range(100):
                await asyncio.sleep(0)
            events = loop.counters().events - before
            if reads_on:
                there.send(b"for the new one")
                assert await waiting == b"for the new one"[:10]
            assert events <= 4


async def test_registrations_for_writing_are_told_as_before(loop: loopcore.EventLoop, told: Told, pair: Pair) -> None:
    left, right = pair
    sending = asyncio.ensure_future(loop.sock_sendall(left, bytes(4 << 20)))
    left_to_come = 4 << 20
    while left_to_come:
        left_to_come -= len(await loop.sock_recv(right, 1 << 20))
    await sending
    assert told.calls.count(("register", left.fileno())) == told.calls.count(("unregister", left.fileno()))
    assert loop._readiness.lookup(left.fileno()) is None
