import os
import select
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.sim import NotSimulatedError, run

unix = pytest.mark.skipif(not hasattr(select, "poll"), reason="poll(2) is Unix's")


def simulated(body: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return body()

    return run(main)


def test_select_reports_what_is_ready_and_waits_for_it() -> None:
    def body() -> None:
        one, other = socket.socketpair()
        with one, other:
            assert select.select([one], [one], [one], 0) == ([], [one], [])
            other.send(b"x")
            assert select.select([one.fileno()], [], []) == ([one.fileno()], [], [])
            one.recv(1)
            before = time.monotonic()
            assert select.select([one], [], [], 60.0) == ([], [], [])
            assert time.monotonic() - before == pytest.approx(60.0)

    simulated(body)


def test_select_without_descriptors_sleeps() -> None:
    def body() -> None:
        before = time.monotonic()
        assert select.select([], [], [], 60.0) == ([], [], [])
        assert time.monotonic() - before == pytest.approx(60.0)

    simulated(body)


@unix
def test_poll_reports_bits_by_descriptor() -> None:
    def body() -> None:
        one, other = socket.socketpair()
        with one:
            poll = select.poll()
            poll.register(one, select.POLLIN)
            assert poll.poll(0) == []
            poll.modify(one, select.POLLIN | select.POLLOUT)
            assert poll.poll() == [(one.fileno(), select.POLLOUT)]
            poll.modify(one, select.POLLIN)
            other.close()
            ((fd, bits),) = poll.poll(1000)
            assert fd == one.fileno()
            assert bits & select.POLLIN
            poll.unregister(one)
            with pytest.raises(KeyError):
                poll.unregister(one)
            with pytest.raises(FileNotFoundError):
                poll.modify(one, select.POLLIN)

    simulated(body)


@unix
def test_a_closed_descriptor_is_invalid() -> None:
    def body() -> None:
        one, other = socket.socketpair()
        poll = select.poll()
        poll.register(one)
        fd = one.fileno()
        one.close()
        other.close()
        assert poll.poll() == [(fd, select.POLLNVAL)]
        with pytest.raises(OSError, match="Bad file descriptor"):
            select.select([fd], [], [], 0)

    simulated(body)


@unix
def test_a_poll_selector_works() -> None:
    def body() -> None:
        one, other = socket.socketpair()
        with one, other, selectors.PollSelector() as selector:
            selector.register(one, selectors.EVENT_READ, "one")
            assert selector.select(0) == []
            other.send(b"x")
            ((key, events),) = selector.select(1)
            assert (key.data, events) == ("one", selectors.EVENT_READ)

    simulated(body)


def test_wrong_arguments_are_refused_as_by_python() -> None:
    def body() -> None:
        with pytest.raises(ValueError, match="non-negative"):
            select.select([], [], [], -1)
        with pytest.raises(ValueError, match="negative integer"):
            select.select([-1], [], [], 0)

    simulated(body)


def test_a_real_descriptor_is_refused() -> None:
    read, write = os.pipe()

    def body() -> None:
        with pytest.raises(NotSimulatedError, match=r"select\.select\(\) is not simulated"):
            select.select([read], [], [], 0)

    try:
        simulated(body)
    finally:
        os.close(read)
        os.close(write)
