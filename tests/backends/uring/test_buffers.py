"""Queues and buffers that are full, lent, or given back in disorder."""

import os

import pytest

from loopcore.ports.interest import WRITE
from loopcore.ports.operations import Poll, Receive
from loopcore.testing.conformance.ledger import PATIENCE, Ledger
from tests.backends.uring.kit import LARGE, fill, needs_uring


@needs_uring
@pytest.mark.parametrize("mask", [(), ("defer_taskrun",)])
def test_more_completions_than_the_queue_holds_are_all_told(make_port, pair, mask):
    ledger = Ledger(make_port(*mask))
    polls = [Poll(pair[0].fileno(), WRITE) for _ in range(10_000)]
    ledger.submit(*polls)
    while ledger.in_flight:
        assert ledger.wait(PATIENCE)
    assert all(ledger.results[poll] == [WRITE] for poll in polls)


@needs_uring
def test_completions_that_overflowed_while_others_were_cancelled_are_told(ledger, make_pair):
    """Each byte is a poll's completion; the cancelling of a last one takes them all from the kernel."""
    one, other = make_pair()
    polls = [Poll(one.fileno(), 1) for _ in range(6_000)]
    last = Poll(make_pair()[0].fileno(), 1)
    ledger.submit(*polls, last)
    ledger.wait(0.0)
    while ledger.port.wait(0.0):
        pass
    other.send(b"x")
    ledger.cancel(last)
    while ledger.in_flight:
        assert ledger.wait(PATIENCE)
    assert all(len(ledger.results[poll]) == 1 for poll in polls)


@needs_uring
@pytest.mark.parametrize(
    "mask", [(), ("incremental",), ("incremental", "bundles"), ("multishot_receive",), ("buffer_ring",)]
)
def test_more_data_than_buffers_arrives_whole(make_port, make_pair, mask):
    ledger = Ledger(make_port(*mask))
    pairs = [make_pair() for _ in range(70)]
    sizes = [fill(other) for _, other in pairs]
    receives = [Receive(one.fileno(), LARGE) for one, _ in pairs]
    ledger.submit(*receives)
    for receiving, size in zip(receives, sizes, strict=True):
        came = 0
        while came < size:
            came += len(ledger.result_of(receiving))
            if receiving not in ledger.in_flight and came < size:
                ledger.submit(receiving)
        assert came == size


@needs_uring
@pytest.mark.parametrize("mask", [(), ("incremental",), ("incremental", "bundles")])
def test_buffers_that_came_back_in_another_order_hold_what_they_should(make_port, pair, mask):
    """Of a bundle they no longer lie side by side."""
    port = make_port(*mask)
    receiving = Receive(pair[0].fileno(), 1 << 20)
    receiving.lend = True
    port.submit(receiving)
    loans = []
    for number in range(20):
        pair[1].send(bytes([number]) * 100)
        loans += [result for operation, result, _ in port.wait(PATIENCE) if operation is receiving]
    assert b"".join(bytes(loan.view) for loan in loans) == b"".join(bytes([n]) * 100 for n in range(20))
    for loan in reversed(loans):
        loan.give_back()
    message = os.urandom(LARGE)
    for _ in range(60):  # round the whole ring
        pair[1].send(message)
        came = b""
        while len(came) < len(message):
            for _, result, _ in port.wait(PATIENCE):
                came += bytes(result.view)
                result.give_back()
        assert came == message


@needs_uring
@pytest.mark.parametrize("mask", [(), ("incremental",)])
@pytest.mark.parametrize("size", [4, 5000])
def test_what_nobody_gives_back_does_not_stop_the_others(make_port, pair, mask, size):
    port = make_port(*mask)
    receiving = Receive(pair[0].fileno(), LARGE)
    receiving.lend = True
    port.submit(receiving)
    loans = []
    for number in range(1500):  # more than there are buffers
        pair[1].send(number.to_bytes(4, "big") * (size // 4))
        loans += [result for _, result, _ in port.wait(PATIENCE)]
    expected = b"".join(number.to_bytes(4, "big") * (size // 4) for number in range(1500))
    assert b"".join(bytes(loan.view) for loan in loans) == expected
    for loan in loans:
        loan.give_back()
    pair[1].send(b"and on")
    assert [bytes(result.view) for _, result, _ in port.wait(PATIENCE)] == [b"and on"]


@needs_uring
def test_what_is_lent_can_be_read_after_the_port_is_closed(port, pair):
    receiving = Receive(pair[0].fileno(), LARGE)
    receiving.lend = True
    port.submit(receiving)
    pair[1].send(b"kept")
    ((_, loan, _),) = port.wait(PATIENCE)
    port.close()
    assert bytes(loan.view) == b"kept"
    loan.give_back()
    with pytest.raises(ValueError, match="released"):
        bytes(loan.view)
