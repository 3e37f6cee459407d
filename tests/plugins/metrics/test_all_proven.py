"""No metric is without a test that moves it."""

from loopcore_plugins.metrics.catalogue import CATALOGUE
from tests.plugins.metrics import test_proofs, test_proofs_of_parts
from tests.plugins.metrics.reading import proven


def test_every_metric_is_proven() -> None:
    assert test_proofs
    assert test_proofs_of_parts
    assert proven == {metric.name for metric in CATALOGUE}
