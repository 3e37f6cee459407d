"""A ring belongs to a thread; the port goes with whoever waits in it."""

import errno
import os
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from loopcore.ports.interest import WRITE
from loopcore.ports.operations import Poll, Read, Receive
from loopcore.testing.conformance.ledger import PATIENCE, Ledger
from loopcore_backends.uring.results import Results
from tests.backends.uring.kit import LARGE, fill, in_thread, needs_uring, send_of


@needs_uring
@pytest.mark.parametrize("mask", [(), ("defer_taskrun",)])
def test_port_made_in_one_thread_works_in_another(make_port, pair, mask):
    ledger = Ledger(make_port(*mask))
    receiving = Receive(pair[0].fileno(), LARGE)
    ledger.submit(receiving)

    def work() -> None:
        ledger.submit(send_of(pair[1], b"hello"))
        assert ledger.result_of(receiving) == b"hello"

    in_thread(work)


@needs_uring
@pytest.mark.parametrize("mask", [(), ("defer_taskrun",)])
def test_what_is_in_flight_moves_with_the_port_to_another_thread(make_port, make_pair, mask):
    port = make_port(*mask)
    ledger = Ledger(port)
    one, other = make_pair()
    full, reader = make_pair()
    before = fill(full)
    receiving, polling, sending = Receive(one.fileno(), LARGE), Poll(full.fileno(), WRITE), send_of(full, b"last")
    ledger.submit(receiving, polling, sending)
    ledger.wait(0.0)

    def work() -> None:
        other.send(b"first")
        assert ledger.result_of(receiving) == b"first"

    in_thread(work)
    other.send(b"second")  # the thread that began the receive again has ended
    assert ledger.result_of(receiving) == b"second"
    came = b""
    while len(came) < before + 4:
        ledger.wait(0.01)
        try:
            came += reader.recv(1 << 20)
        except BlockingIOError:
            pass
    assert came.endswith(b"xlast")
    assert ledger.result_of(sending) == 4
    assert ledger.result_of(polling) & WRITE


@needs_uring
def test_an_operation_that_was_never_begun_can_be_cancelled_in_another_thread(ledger, pair):
    receiving = Receive(pair[0].fileno(), LARGE)
    ledger.wait(0.0)
    ledger.submit(receiving)
    in_thread(lambda: ledger.cancel(receiving))
    assert ledger.result_of(receiving).errno == errno.ECANCELED


@needs_uring
def test_wake_ends_a_wait_of_the_new_thread(port):
    port.wait(0.0)

    def work() -> None:
        port.wake()
        start = monotonic()
        assert port.wait(PATIENCE) == []
        assert monotonic() - start < PATIENCE

    in_thread(work)


@needs_uring
@pytest.mark.skipif(not hasattr(Results, "_piece"), reason="compiled, what the kernel says cannot be held back")
def test_read_of_a_file_is_not_made_again_in_another_thread(port: Any, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"first second")
    file = os.open(path, os.O_RDONLY)
    try:
        reading = Read(file, 6)
        ledger = Ledger(port)
        ledger.submit(reading)
        with monkeypatch.context() as patched:
            patched.setattr(Results, "harvest", lambda self, requests: None)  # a kernel thread is still at it
            port.wait(0.0)
            in_thread(lambda: ledger.wait(0.001))
        assert ledger.result_of(reading).errno == errno.ECANCELED
        assert os.read(file, 6) == b"second"
    finally:
        os.close(file)
