"""A child that was forked past Python's hooks, as C code forks: it must not touch the ring of its parent."""

import os
from collections.abc import Callable
from typing import Any

from loopcore.errors import BackendClosedError
from loopcore.ports.operations import Receive
from loopcore.testing.conformance.ledger import Ledger
from tests import c_fork
from tests.backends.uring.kit import LARGE, needs_uring


def in_child(work: Callable[[], Any]) -> int:
    """Fork as C does, call `work` in the child, and return the child's exit code: 0 if `work` was refused."""
    child = c_fork.fork()
    if child == 0:
        code = 1
        try:
            work()
        except BackendClosedError:
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_uring
def test_child_can_neither_submit_nor_cancel_nor_wait(port, pair, make_pair):
    ledger = Ledger(port)
    receiving, other = Receive(pair[0].fileno(), LARGE), Receive(make_pair()[0].fileno(), LARGE)
    ledger.submit(receiving)  # in the queue, which the child shares
    for work in (lambda: port.cancel(receiving), lambda: port.submit(other), lambda: port.wait(0.0)):
        assert in_child(work) == 0
    pair[1].send(b"hello")
    assert ledger.result_of(receiving) == b"hello"


@needs_uring
def test_close_of_a_child_leaves_the_ring_alone(port, pair):
    ledger = Ledger(port)
    receiving = Receive(pair[0].fileno(), LARGE)
    ledger.submit(receiving)

    def work() -> None:
        assert port.close() == [receiving]
        port.wait(0.0)  # refused: it is closed there

    assert in_child(work) == 0
    pair[1].send(b"hello")
    assert ledger.result_of(receiving) == b"hello"
