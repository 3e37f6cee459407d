"""add_reader and its relatives, when the descriptor is closed or the callback replaced before the event arrives."""

import asyncio
import socket
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop
Pair = tuple[socket.socket, socket.socket]


@pytest.mark.parametrize("direction", ["reader", "writer"])
def test_closed_socket_is_found_by_object(loop: Loop, pair: Pair, direction: str) -> None:
    add, remove = getattr(loop, f"add_{direction}"), getattr(loop, f"remove_{direction}")
    left, _ = pair
    add(left, pytest.fail, "called although it was closed")
    left.close()
    assert remove(left) is True
    with pytest.raises(ValueError, match=r"^Invalid file descriptor: -1$"):
        remove(left)
    second, peer = socket.socketpair()  # takes over the number, of which nothing may be left
    with second, peer:
        loop.add_writer(second, loop.stop)
        loop.run_forever()
        assert loop.remove_writer(second) is True


def test_socket_that_was_closed_unwatched_is_an_error_as_before(loop: Loop, pair: Pair) -> None:
    left, _ = pair
    loop.add_reader(left.fileno(), print)
    number = left.fileno()
    left.close()
    with pytest.raises(ValueError, match=r"^Invalid file descriptor: -1$"):
        loop.remove_reader(left)
    assert loop.remove_reader(number) is True


@pytest.mark.loopcore_only  # asyncio's raises the OSError of epoll, and has forgotten both
def test_closed_socket_can_be_removed_in_both_directions(loop: Loop, pair: Pair) -> None:
    left, _ = pair
    loop.add_reader(left, print)
    loop.add_writer(left, print)
    left.close()
    assert loop.remove_reader(left) is True
    assert loop.remove_writer(left) is True


def test_reader_that_replaces_another_does_not_get_its_event(loop: Loop, pair: Pair) -> None:
    left, right = pair
    seen: list[Any] = []

    def replace() -> None:
        """Runs in the tick that has an event for the first reader."""
        loop.add_reader(left, read)
        loop.call_soon(seen.append, "the next tick")

    def read() -> None:
        seen.append("second")
        loop.stop()

    loop.add_reader(left, seen.append, "first")
    right.send(b"x")
    loop.call_soon(replace)
    loop.run_forever()
    assert loop.remove_reader(left) is True
    assert seen == ["the next tick", "second"]


def test_writer_added_to_a_readable_descriptor_waits_for_its_own_event(loop: Loop, pair: Pair) -> None:
    left, right = pair
    seen: list[str] = []

    def read() -> None:
        seen.append("read")
        loop.remove_reader(left)
        loop.add_writer(left, write)
        loop.call_soon(seen.append, "the next tick")

    def write() -> None:
        seen.append("write")
        loop.remove_writer(left)
        loop.stop()

    loop.add_reader(left, read)
    right.close()  # a hang-up wakes both directions
    loop.run_forever()
    assert seen == ["read", "the next tick", "write"]
