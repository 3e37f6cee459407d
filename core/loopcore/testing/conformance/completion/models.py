"""Random use, compared with a naive model; the machine is in `model`, which needs hypothesis."""

import pytest

from loopcore.testing.conformance.base import Level, unhurried


class CompletionModels(Level):
    """Random use, compared with a naive model."""

    @unhurried
    def test_port_agrees_with_the_model(self) -> None:
        pytest.importorskip("hypothesis", reason='needs hypothesis: pip install "loopcore[testing]"')
        from loopcore.testing.conformance.completion.model import check

        check(self.make)
