"""Operations that could not be begun at once, and a signal or a time limit while that is made up for."""

import pytest

from loopcore.operations import Receive
from loopcore.testing.conformance.completion.signals import interrupt
from loopcore.testing.conformance.ledger import PATIENCE
from loopcore.testing.conformance.surroundings import alarms
from loopcore_backends.uring.ring import Ring
from tests.backends.uring.kit import LARGE, needs_uring

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
