"""Effects of settings: what is varied exists, and a value reaches the measured process and nobody after it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loopcore.selection.environment import SETTINGS
from tests.benchmarks import effects
from tests.benchmarks.harness.cli import all_rows


def test_every_setting_is_varied_on_a_row_that_there_is_and_its_default_is_among_the_values() -> None:
    assert {case.variable for case in effects.CASES} == {*SETTINGS, "LOOPCORE_EVENT_BATCH"}
    assert {case.row for case in effects.CASES} <= set(all_rows())
    assert all("" in case.values for case in effects.CASES)


def test_a_variable_is_set_inside_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOPCORE_FLUSH_LIMIT", raising=False)
    with effects.variable_set("LOOPCORE_FLUSH_LIMIT", "5"):
        assert os.environ["LOOPCORE_FLUSH_LIMIT"] == "5"
    with effects.variable_set("LOOPCORE_FLUSH_LIMIT", ""):
        assert "LOOPCORE_FLUSH_LIMIT" not in os.environ


def test_what_cannot_be_measured_is_refused_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "settings.json"
    assert effects.main(["measure", "--python", "/no/such/python", "--out", str(out)]) == 2
    assert "no interpreter at /no/such/python" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        effects.main(["measure", "--python", "python", "--rounds", "0", "--out", str(out)])
    assert not out.exists()
