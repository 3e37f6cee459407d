"""A backend that is no part of loopcore: examples/ppoll, tested as its author would."""

import sys
from pathlib import Path

import pytest

from tests.testing.test_new import passes

FOLDER = Path(__file__).parents[2] / "examples" / "ppoll"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ppoll(2), by Linux's numbers")
def test_it_keeps_the_contract(tmp_path: Path) -> None:
    passes(FOLDER, tmp_path / "site")
