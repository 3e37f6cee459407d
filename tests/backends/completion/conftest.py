"""A ledger that looks at everything that a port says."""

from typing import Any

import pytest

from loopcore.testing.conformance.ledger import Ledger


@pytest.fixture
def ledger(port: Any) -> Ledger:
    """What goes into `port` and comes out of it."""
    return Ledger(port)
