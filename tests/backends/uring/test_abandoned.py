"""Rings that are abandoned while another thread owns them: their memory is kept until the kernel is done with it."""

import gc
import os
import select
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from loopcore.ports.operations import Receive
from loopcore.testing.conformance.ledger import PATIENCE, Ledger
from loopcore_backends.uring import UringBackend, abandoned
from tests.backends.uring.kit import LARGE, in_thread, needs_uring

pytestmark = needs_uring


class Worker:
    """A thread that lives on while others close or take over what it began."""

    def __init__(self) -> None:
        self._works: list[Callable[[], Any]] = []
        self._begun, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while self._begun.acquire() and self._works:
            try:
                self._works.pop()()
            except BaseException as exc:
                self._failures.append(exc)
            self._done.release()

    def do(self, work: Callable[[], Any]) -> None:
        self._works.append(work)
        self._begun.release()
        self._done.acquire()
        if self._failures:
            raise self._failures.pop()

    def end(self) -> None:
        self._begun.release()
        self._thread.join()


@contextmanager
def workers(count: int) -> Iterator[list[Worker]]:
    made = [Worker() for _ in range(count)]
    try:
        yield made
    finally:
        for worker in made:
            worker.end()


def await_ends() -> None:
    """Wait until the kernel has ended all abandoned rings, and release their memory."""
    for end_fd, _ in [*abandoned.kept.values()]:
        end = select.poll()
        end.register(end_fd, 0)
        assert end.poll(PATIENCE * 1000)
    abandoned.release(0)


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")


def test_loop_that_moves_between_two_living_threads_keeps_a_bounded_number_of_rings(make_port, pair):
    """Issue 32: each move kept 4 MiB for as long as the threads lived."""
    ledger = Ledger(make_port())
    receiving = Receive(pair[0].fileno(), LARGE)
    ledger.submit(receiving)

    def work() -> None:
        pair[1].send(b"moved")
        assert ledger.result_of(receiving) == b"moved"

    with workers(2) as (one, other):
        for _ in range(30):
            one.do(work)
            other.do(work)
            assert len(abandoned.kept) <= abandoned.LIMIT
    ledger.port.close()
    assert not abandoned.kept


@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_ports_that_another_thread_ends_leave_neither_memory_nor_descriptors(pair, how):
    """Issue 32: their memory was kept for as long as the thread that had waited lived."""
    await_ends()
    before = descriptors()

    def make() -> UringBackend:
        port = UringBackend()
        port.submit(Receive(pair[0].fileno(), LARGE))
        port.wait(0.0)
        return port

    ports = [make()]
    sizes = []
    with ThreadPoolExecutor(1) as other:  # one thread, whose stack is counted once
        for _ in range(4):
            for _ in range(10):
                other.submit(ports.pop().close if how == "closed" else ports.clear).result()
                gc.collect()
                assert not abandoned.kept
                ports.append(make())
            sizes.append(address_space())
    ports.pop().close()
    assert not abandoned.kept
    assert descriptors() == before
    assert sizes[-1] - sizes[1] < 10 << 20  # twenty rings would be more than 80 MiB


def test_memory_of_ports_that_other_threads_close_at_once_is_kept_until_their_rings_have_ended(make_port, make_pair):
    """Issue 32: entries were lost when two ports were given up at once."""
    ports = [make_port() for _ in range(8)]
    for port in ports:
        port.submit(Receive(make_pair()[0].fileno(), LARGE))
        port.wait(0.0)
    await_ends()
    kept: list[Any] = []
    remove = abandoned.release
    try:
        abandoned.release = lambda allowed: None  # type: ignore[assignment]
        threads = [
            threading.Thread(target=lambda half=half: [port.close() for port in half])
            for half in (ports[::2], ports[1::2])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept += abandoned.kept
    finally:
        abandoned.release = remove
    assert len(kept) == len(ports)
    await_ends()
    assert not abandoned.kept


def test_ring_that_has_ended_is_reported_while_the_thread_that_owned_it_lives(make_port, pair):
    """A closed ring's requests end although their thread never enters the kernel for it again."""
    await_ends()
    port = make_port()
    port.submit(Receive(pair[0].fileno(), LARGE))
    port.wait(0.0)
    in_thread(port.close)
    pair[1].send(b"not for the closed ring")
    assert not abandoned.kept
    assert pair[0].recv(LARGE) == b"not for the closed ring"


def test_port_whose_operations_have_ended_keeps_nothing(make_port, pair):
    await_ends()
    port = make_port()
    ledger = Ledger(port)
    receiving = Receive(pair[0].fileno(), LARGE)
    ledger.submit(receiving)
    ledger.wait(0.0)
    port.cancel(receiving)
    in_thread(port.close)
    assert not abandoned.kept
