"""Calls in the middle of another call of the port: from finalizers, from signal handlers, in other threads."""

import asyncio
import errno
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore.errors import BackendClosedError
from loopcore.ports.interest import READ
from loopcore.ports.operations import Poll, Receive
from loopcore.testing.conformance.ledger import PATIENCE, Ledger
from loopcore_backends.uring import UringBackend, backend
from loopcore_backends.uring.results import Results
from tests.backends.uring.kit import LARGE, in_thread, needs_uring, send_of

pytestmark = needs_uring
interpreted = pytest.mark.skipif(not hasattr(Results, "_piece"), reason="compiled, there is nothing to step into")


class Dropped:
    """What a forgotten transport is: garbage in a cycle, whose finalizer calls the port."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.me = self

    def __del__(self) -> None:
        self.call()


@contextmanager
def collector_at_every_allocation() -> Iterator[None]:
    gc.collect()
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def wait_with_a_signal(port: Any, call: Callable[[], None]) -> list[Any]:
    """Wait without limit; `call` is a signal's handler, so it runs inside the wait of this thread."""
    before = signal.signal(signal.SIGUSR1, lambda *_: call())
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        return [*port.wait(PATIENCE)]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_finalizer_that_cancels_while_completions_are_taken_loses_and_doubles_nothing(port, make_pair):
    """Issue 32: a nested harvest took entries twice; data was doubled, or replaced by zeros."""
    ledger = Ledger(port)
    pairs = [make_pair() for _ in range(100)]
    receives = [Receive(one.fileno(), 2 * LARGE) for one, _ in pairs]
    victims = [Poll(make_pair()[0].fileno(), READ) for _ in range(20)]
    ledger.submit(*receives, *victims)
    ledger.wait(0.0)
    for number, (_, other) in enumerate(pairs):
        other.send(b"%06d" % number)
    gc.disable()
    for victim in victims:
        Dropped(lambda victim=victim: port.cancel(victim))
    gc.enable()
    with collector_at_every_allocation():
        completions = [*port.wait(0.0)]
    for operation, _result, more in completions:
        assert operation in ledger.in_flight
        if not more:
            ledger.in_flight.remove(operation)
    received = {operation: result for operation, result, _ in completions if operation in receives}
    gc.collect()
    ledger.settle(*victims)
    for number, receiving in enumerate(receives):
        assert (received[receiving] if receiving in received else ledger.result_of(receiving)) == b"%06d" % number


def test_ring_does_not_move_while_its_owner_waits(port, pair, make_pair):
    """Issue 32: a cancel in another thread moved the ring; the kernel wrote to memory that was given back by then."""
    ledger = Ledger(port)
    receiving, victim = Receive(pair[0].fileno(), LARGE), Receive(make_pair()[0].fileno(), LARGE)
    ledger.submit(receiving, victim)
    ledger.wait(0.0)

    def work() -> None:
        port.cancel(victim)
        pair[1].send(b"for the owner")

    thread = threading.Timer(0.05, work)
    thread.start()
    assert ledger.result_of(receiving) == b"for the owner"
    assert ledger.result_of(victim).errno == errno.ECANCELED
    thread.join()


@pytest.mark.skipif(not hasattr(asyncio.StreamWriter, "__del__"), reason="a dropped writer leaves the transport open")
def test_writer_collected_in_another_thread_leaves_the_other_connections_alone():
    """Issue 32, as a program meets it: streams in a cycle are collected by an executor's thread."""
    loop = loopcore.new_event_loop(backend="uring")
    server = socket.create_server(("127.0.0.1", 0))
    accepted: list[socket.socket] = []

    async def open_and_forget(address: Any) -> None:
        reader, writer = await asyncio.open_connection(*address)
        cycle: list[Any] = [reader, writer]
        cycle.append(cycle)

    async def main() -> list[bytes]:
        address = server.getsockname()
        reader, writer = await asyncio.open_connection(*address)
        accepted.append(server.accept()[0])
        received = []
        for number in range(5):
            await open_and_forget(address)
            accepted.append(server.accept()[0])

            def collect(number: int = number) -> None:
                gc.collect()
                accepted[0].send(b"message %d" % number)

            await loop.run_in_executor(None, collect)
            received.append(await asyncio.wait_for(reader.read(100), PATIENCE))
        writer.close()
        await writer.wait_closed()
        await loop.shutdown_default_executor()
        return received

    gc.collect()
    gc.disable()
    try:
        with pytest.warns(ResourceWarning):
            assert loop.run_until_complete(main()) == [b"message %d" % number for number in range(5)]
    finally:
        gc.enable()
        for sock in (server, *accepted):
            sock.close()
        loop.close()


def test_signal_handler_may_submit_and_cancel_inside_a_wait(port, pair, make_pair):
    ledger = Ledger(port)
    victim = Receive(make_pair()[0].fileno(), LARGE)
    receiving = Receive(pair[0].fileno(), LARGE)
    ledger.submit(victim)

    def call() -> None:
        port.cancel(victim)
        port.submit(receiving)
        with pytest.raises(ValueError, match="in flight"):
            port.submit(receiving)

    completions = wait_with_a_signal(port, call)
    assert [operation for operation, _, _ in completions] == [victim]
    pair[1].send(b"x")
    assert [operation for operation, _, _ in port.wait(PATIENCE)] == [receiving]


def test_submission_from_another_thread_begins_with_the_wait(port, pair):
    receiving = Receive(pair[0].fileno(), LARGE)
    in_thread(lambda: port.submit(receiving))
    pair[1].send(b"hello")
    assert ([*port.wait(PATIENCE)] or [*port.wait(PATIENCE)]) == [(receiving, b"hello", True)]


def test_what_was_submitted_and_cancelled_in_another_thread_ends_once(port, pair):
    receiving = Receive(pair[0].fileno(), LARGE)

    def work() -> None:
        port.submit(receiving)
        port.cancel(receiving)

    in_thread(work)
    ended = [*port.wait(PATIENCE)] or [*port.wait(PATIENCE)]
    assert [(operation, result.errno, more) for operation, result, more in ended] == [
        (receiving, errno.ECANCELED, False)
    ]
    port.cancel(receiving)
    port.submit(receiving)


def test_unknown_operation_that_was_submitted_in_another_thread_ends_with_an_error(port, pair):
    receiving = Receive(pair[0].fileno(), LARGE)
    receiving.code = 99
    in_thread(lambda: port.submit(receiving))
    ended = [*port.wait(PATIENCE)] or [*port.wait(PATIENCE)]
    assert [(operation, result.errno, more) for operation, result, more in ended] == [(receiving, errno.EINVAL, False)]


def test_submission_that_fails_in_the_owners_thread_harms_no_other(port, pair):
    """What a foreign thread asked for cannot raise there any more, and must not raise in a call of somebody else."""
    wrong: Any = send_of(pair[0], 3)  # no buffer
    in_thread(lambda: port.submit(wrong))
    good = send_of(pair[0], b"good")
    port.submit(good)
    ended: dict[Any, Any] = {}
    while len(ended) < 2:
        ended.update({operation: result for operation, result, _ in port.wait(PATIENCE)})
    assert ended[good] == 4
    assert ended[wrong].errno == errno.EINVAL
    assert pair[1].recv(10) == b"good"


def test_late_cancel_of_another_thread_does_not_end_the_next_flight(port, pair):
    receiving = Receive(pair[0].fileno(), LARGE)
    port.submit(receiving)
    port.wait(0.0)
    in_thread(lambda: port.cancel(receiving))
    port.cancel(receiving)  # the owner is faster
    ended: list[Any] = []
    while not ended:
        ended += port.wait(PATIENCE)
    assert [result.errno for _, result, _ in ended] == [errno.ECANCELED]
    port.submit(receiving)
    pair[1].send(b"second")
    ended.clear()
    while not ended:
        ended += port.wait(PATIENCE)
    assert ended == [(receiving, b"second", True)]


def test_wait_inside_a_wait_is_refused(port):
    with pytest.raises(RuntimeError, match="in the middle of another call"):
        wait_with_a_signal(port, lambda: port.wait(0.0))


def test_close_inside_a_wait_ends_it_and_the_next_close_returns_what_had_not_ended(port, pair):
    receiving = Receive(pair[0].fileno(), LARGE)
    port.submit(receiving)
    assert wait_with_a_signal(port, lambda: port.close()) == []
    assert [*port.close()] == [receiving]
    assert [*port.close()] == []
    with pytest.raises(BackendClosedError):
        port.wait(0.0)


def test_close_in_another_thread_ends_the_wait(port, pair):
    receiving = Receive(pair[0].fileno(), LARGE)
    port.submit(receiving)
    thread = threading.Timer(0.05, port.close)
    thread.start()
    assert [*port.wait(PATIENCE)] == []
    thread.join()
    assert [*port.close()] == [receiving]


def test_port_that_was_forgotten_leaves_no_descriptor(pair):
    before = set(os.listdir("/proc/self/fd"))
    port = UringBackend()
    port.submit(Receive(pair[0].fileno(), LARGE))
    port.wait(0.0)
    del port
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) == before


def test_memory_that_was_lent_may_be_given_back_in_another_thread(make_port, make_pair):
    ledger = Ledger(make_port())
    one, other = make_pair()
    receiving = Receive(one.fileno(), LARGE)
    receiving.lend = True
    ledger.submit(receiving)
    for number in range(2000):
        message = b"%05d" % number * 200
        other.send(message)
        came = b""
        while len(came) < len(message):  # in two pieces where a buffer ends
            lent = ledger.result_of(receiving)
            came += bytes(lent.view)
            if number % 100:
                lent.give_back()
            else:
                in_thread(lent.give_back)
            if receiving not in ledger.in_flight:
                ledger.submit(receiving)
        assert came == message


def test_quiet_send_posted_inside_a_wait_is_sent(port, pair):
    sending = send_of(pair[0], b"quiet", quiet=True)
    receiving = Receive(pair[1].fileno(), LARGE)
    port.submit(receiving)
    completions = wait_with_a_signal(port, lambda: port.submit(sending))
    while not any(operation is receiving for operation, _, _ in completions):
        completions += port.wait(PATIENCE)
    assert (receiving, b"quiet", True) in completions


@interpreted
def test_call_that_is_interrupted_at_any_instruction_ends_as_usual_or_is_refused():
    """Issue 32: a close between the look at `_closed` and the flag unmapped the ring, which the call then touched."""
    program = Path(__file__).with_name("interrupted.py")
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_new_thread_may_wait_while_the_old_one_is_still_cancelling(make_port, make_pair):
    """Issue 32: the wait failed, as one in the middle of another call."""
    receives = [Receive(make_pair()[0].fileno(), LARGE) for _ in range(100)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(10):
            take_over_while_cancelling(make_port(), receives)
    finally:
        sys.setswitchinterval(interval)


def take_over_while_cancelling(port: Any, receives: list[Receive]) -> None:
    begun, cancelled = threading.Event(), threading.Event()
    ended: list[Any] = []
    failures: list[BaseException] = []

    def work() -> None:
        begun.wait()
        try:
            while not cancelled.is_set() or len(ended) < len(receives):
                ended.extend(port.wait(0.001))
        except BaseException as exc:
            failures.append(exc)

    for receiving in receives:
        port.submit(receiving)
    port.wait(0.0)
    thread = threading.Thread(target=work)
    thread.start()
    begun.set()
    for receiving in receives:
        port.cancel(receiving)
    cancelled.set()
    thread.join()
    assert failures == []
    assert {operation for operation, _, _ in ended} == set(receives)
    assert [(result.errno, more) for _, result, more in ended] == [(errno.ECANCELED, False)] * len(receives)
    port.close()


@interpreted
def test_wait_in_the_middle_of_a_call_of_another_thread_that_does_not_return_is_an_error(port, pair, monkeypatch):
    monkeypatch.setattr(backend, "PATIENCE_STEPS", 3)
    receiving = Receive(pair[0].fileno(), LARGE)

    def never_returns(self: Any, operation: Any) -> None:
        with pytest.raises(RuntimeError, match="in the middle of another call"):
            in_thread(lambda: port.wait(0.0))

    monkeypatch.setattr(UringBackend, "_submit", never_returns)
    port.submit(receiving)


@interpreted
def test_submission_that_is_posted_to_a_port_while_it_closes_is_refused(port, pair, monkeypatch):
    """It was accepted, and never ended."""
    receiving = Receive(pair[0].fileno(), LARGE)
    wake = UringBackend.wake

    def close_first(self: Any) -> None:
        monkeypatch.setattr(UringBackend, "wake", wake)
        port._posted.clear()  # as the close of another thread leaves it: it looked before the submission was there
        port.close()
        port._posted.append(posted)

    def submit() -> None:
        with pytest.raises(BackendClosedError):
            port.submit(receiving)

    class Watched(type(port._posted)):  # type: ignore[misc]
        def append(self, entry: Any) -> None:
            nonlocal posted
            posted = entry
            super().append(entry)

    posted: Any = None
    monkeypatch.setattr(port, "_posted", Watched())
    monkeypatch.setattr(UringBackend, "wake", close_first)
    in_thread(submit)
    assert receiving.slot is None
    assert [*port.close()] == []


@interpreted
def test_cancel_of_what_the_kernel_does_not_end_returns(port, pair, monkeypatch):
    """It asked again without end."""
    receiving = Receive(pair[0].fileno(), LARGE)
    port.submit(receiving)
    port.wait(0.0)
    rounds = 0

    def bring_nothing(self: Any, requests: Any) -> None:
        nonlocal rounds
        rounds += 1
        assert rounds < 1000

    with monkeypatch.context() as patched:
        patched.setattr(Results, "harvest", bring_nothing)
        patched.setattr(backend, "ROUND_NS", 1000)
        port.cancel(receiving)
    assert [(operation, result.errno, more) for operation, result, more in port.wait(PATIENCE)] == [
        (receiving, errno.ECANCELED, False)
    ]
