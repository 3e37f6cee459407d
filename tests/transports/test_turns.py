"""After how many turns of a program its I/O comes, and between which callbacks; asyncio's own loop is the oracle.

What a poll would have found comes a turn later where the poll is left out (issue 32): the data of a new pipe came after
the end of one that was closed later, and a byte in a socket took sixteen turns of `sleep(0)` where asyncio has two.
"""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

TURNS_OF_ASYNCIO = 2
"""In the first turn the poll finds the byte, after the task has run; in the second the task sees what came of it."""


class Receiver(asyncio.Protocol):
    def __init__(self, name: str = "", log: list[tuple[str, str]] | None = None) -> None:
        self.name = name
        self.log: list[tuple[str, str]] = [] if log is None else log
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.log.append((self.name, "made"))

    def data_received(self, data: bytes) -> None:
        self.log.append((self.name, data.decode()))

    def connection_lost(self, exc: Exception | None) -> None:
        self.log.append((self.name, "lost"))
        self.lost.set_result(None)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        yield near, far


async def turns_until(condition: Any) -> int:
    """Count the turns of `sleep(0)` until `condition()` is true; 100 at most."""
    for turn in range(1, 100):
        await asyncio.sleep(0)
        if condition():
            return turn
    return 100


async def settle(busy: bool) -> None:
    """Have the loop busy with turns of this task, or else woken by a timer out of a wait."""
    if busy:
        for _ in range(10):
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "woken"])
@pytest.mark.parametrize("others", [0, 3])
async def test_a_byte_in_a_socket_reaches_its_protocol_in_the_turns_that_asyncio_takes(
    loop: asyncio.AbstractEventLoop, pair: tuple[socket.socket, socket.socket], busy: bool, others: int
) -> None:
    near, far = pair

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    spinning = [loop.create_task(spin()) for _ in range(others)]
    transport, protocol = await loop.connect_accepted_socket(Receiver, near)
    taken: list[int] = []
    for _ in range(5):
        await settle(busy)
        protocol.log.clear()
        far.send(b"x")
        taken.append(await turns_until(lambda: ("", "x") in protocol.log))
    transport.close()
    await protocol.lost
    for task in spinning:
        task.cancel()
    await asyncio.gather(*spinning, return_exceptions=True)
    assert taken == [TURNS_OF_ASYNCIO] * 5


async def test_a_reader_that_is_new_is_looked_at_in_the_next_tick(
    loop: asyncio.AbstractEventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    far.send(b"x")
    log: list[str] = []
    await asyncio.sleep(0.001)  # woken out of a wait, and behind a poll that is left out
    loop.add_reader(near, lambda: log.append("read") or loop.remove_reader(near))  # type: ignore[func-returns-value]
    assert await turns_until(lambda: log) == TURNS_OF_ASYNCIO


async def test_a_reader_set_by_an_event_is_looked_at_before_the_callbacks_of_the_next_turn_but_one(
    loop: asyncio.AbstractEventLoop, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    far.send(b"x")
    ran: list[str] = []
    done = loop.create_future()

    def turn(left: int) -> None:
        ran.append("turn")
        if left:
            loop.call_soon(turn, left - 1)
        else:
            done.set_result(None)

    def notice() -> None:
        ran.append("read")
        loop.remove_reader(near)

    def register() -> None:
        loop.add_reader(near, notice)
        loop.call_soon(turn, 3)

    loop.call_later(0.001, register)
    await done
    assert ran == ["turn", "read", "turn", "turn", "turn"]


async def test_the_data_of_a_new_pipe_comes_before_the_end_of_one_that_is_closed_later(
    loop: asyncio.AbstractEventLoop,
) -> None:
    log: list[tuple[str, str]] = []
    (far_a, near_a), (far_b, near_b) = socket.socketpair(), socket.socketpair()
    with far_a, far_b:
        far_a.send(b"xxx")
        far_b.send(b"yyy")
        first, a = await loop.connect_read_pipe(lambda: Receiver("a", log), near_a)
        await asyncio.sleep(0.001)
        second, b = await loop.connect_read_pipe(lambda: Receiver("b", log), near_b)
        first.close()
        await a.lost
        second.close()
        await b.lost
    assert log == [
        ("a", "made"), ("a", "xxx"), ("b", "made"), ("b", "yyy"), ("a", "lost"), ("b", "lost"),
    ]  # fmt: skip
