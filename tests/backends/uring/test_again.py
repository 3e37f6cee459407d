"""Operations that could not be begun at once, and signals or time limits while operations are begun."""

import pytest

from loopcore.ports.operations import Receive
from loopcore.testing.conformance.completion.signals import interrupt
from loopcore.testing.conformance.ledger import PATIENCE
from loopcore.testing.conformance.surroundings import alarms
from loopcore_backends.uring.ring import Ring
from tests.backends.uring.kit import LARGE, needs_uring, send_of

interpreted = pytest.mark.skipif(not hasattr(Ring, "put"), reason="compiled, the ring cannot be reached")


@pytest.fixture
def full(ledger, monkeypatch):
    """Let the port find no room for a request until the patch is undone."""
    ledger.wait(0.0)
    monkeypatch.setattr(Ring, "space", lambda ring: 1)
    return monkeypatch


@needs_uring
@interpreted
def test_wait_with_what_cannot_be_begun_ends_at_its_time(ledger, full, pair):
    receiving = Receive(pair[0].fileno(), LARGE)
    ledger.submit(receiving)
    with alarms() as on_alarm:
        on_alarm(interrupt, PATIENCE)  # or else it would never end
        assert ledger.wait(0.01) == []
    full.undo()
    pair[1].send(b"after all")
    assert ledger.result_of(receiving) == b"after all"


@needs_uring
@interpreted
def test_signal_while_an_operation_is_begun_again_does_not_begin_it_twice(ledger, port, full, make_pair):
    (one, other), (near, _) = make_pair(), make_pair()
    sending, receiving = send_of(one, b"once"), Receive(near.fileno(), LARGE)
    before = send_of(other, b"before")
    ledger.submit(before, sending, receiving)
    full.undo()
    put = Ring.put

    def put_and_interrupt(ring, user_data, *words):
        position = put(ring, user_data, *words)
        if ring.tail - ring.consumed() == 2:
            full.undo()
            raise KeyboardInterrupt
        return position

    full.setattr(Ring, "put", put_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        port.wait(0.0)
    assert ledger.result_of(sending) == 4
    assert ledger.result_of(before) == 6
    assert (other.recv(LARGE), one.recv(LARGE)) == (b"once", b"before")
    assert ledger.in_flight == {receiving}
    ledger.cancel(receiving)


@needs_uring
@interpreted
def test_submit_that_a_signal_interrupts_leaves_no_request_behind(ledger, port, pair, monkeypatch):
    put = Ring.put

    def put_and_interrupt(ring, *words):
        put(ring, *words)
        raise KeyboardInterrupt

    sending = send_of(pair[0], b"refused")
    monkeypatch.setattr(Ring, "put", put_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        port.submit(sending)
    monkeypatch.undo()
    sending.buffers = (b"accepted",)
    ledger.submit(sending)
    assert ledger.result_of(sending) == 8
    assert pair[1].recv(LARGE) == b"accepted"
