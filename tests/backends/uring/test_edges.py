"""Polls for edges: asked for once, told of each arrival."""

import errno

import pytest

from loopcore.ports.interest import HANGUP, READ
from loopcore.ports.operations import Poll
from loopcore.testing.conformance.ledger import Ledger
from tests.backends.uring.kit import needs_uring
from tests.transports.recorder import tcp_pair


@needs_uring
def test_each_arrival_is_told_without_asking_again(ledger, pair):
    polling = Poll(pair[0].fileno(), READ, edges=True)
    ledger.submit(polling)
    assert ledger.has_nothing_new()
    for _ in range(3):
        pair[1].send(b"x")
        assert ledger.result_of(polling) == READ
        assert pair[0].recv(10) == b"x"
        assert polling in ledger.in_flight


@needs_uring
def test_what_is_there_already_is_told_once(ledger, pair):
    pair[1].send(b"x")
    polling = Poll(pair[0].fileno(), READ, edges=True)
    ledger.submit(polling)
    assert ledger.result_of(polling) == READ
    assert ledger.has_nothing_new()
    assert polling in ledger.in_flight


@needs_uring
def test_end_that_comes_with_data_is_told_with_it(ledger):
    near, far = tcp_pair()
    with near, far:
        polling = Poll(near.fileno(), READ, edges=True)
        ledger.submit(polling)
        ledger.wait(0.0)
        far.send(b"last words")
        far.close()
        bits = ledger.result_of(polling)
        while not bits & HANGUP:
            bits |= ledger.result_of(polling)
        assert bits & READ


@needs_uring
def test_poll_for_edges_can_be_cancelled(ledger, pair):
    polling = Poll(pair[0].fileno(), READ, edges=True)
    ledger.submit(polling)
    ledger.wait(0.0)
    ledger.cancel(polling)
    assert ledger.result_of(polling).errno == errno.ECANCELED
    assert polling not in ledger.in_flight


@needs_uring
@pytest.mark.parametrize("is_ready", [True, False])
def test_without_the_feature_it_ends_with_its_first_result(make_port, pair, is_ready):
    ledger = Ledger(make_port("multishot_poll"))
    polling = Poll(pair[0].fileno(), READ, edges=True)
    if is_ready:
        pair[1].send(b"x")
    ledger.submit(polling)
    if not is_ready:
        assert ledger.has_nothing_new()
        pair[1].send(b"x")
    assert ledger.result_of(polling) & READ
    assert polling not in ledger.in_flight
