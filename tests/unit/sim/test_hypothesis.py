import re
import subprocess
import sys

import pytest

from loopcore import sim
from loopcore.errors import UsageError
from loopcore.sim.hypothesis import links, partitions, schedules
from loopcore.sim.tape import Level, Replay, Tape
from tests.unit.sim.models import LostUpdateError, cancellation, lost_update


@pytest.mark.parametrize(("program", "minimum"), [(lost_update, 2), (cancellation, 1)])
def test_hypothesis_finds_the_race_and_shrinks_it(program, minimum: int) -> None:
    hypothesis = pytest.importorskip("hypothesis")
    failed: list[Tape] = []

    @hypothesis.settings(database=None, max_examples=2_000, derandomize=True)
    @hypothesis.given(tape=schedules(steps=50))
    def test(tape: Tape) -> None:
        try:
            program(tape)
        except LostUpdateError:
            failed.append(tape)
            raise

    with pytest.raises(LostUpdateError) as raised:
        test()
    assert sum(failed[-1].values) == minimum
    assert failed[-1].seed == 0
    report = re.sub(r"#.*|\s", "", "\n".join(raised.value.__notes__))
    assert re.search(r"tape=Tape\(Replay\(\{\d+:1", report)


def test_drawn_tapes_stay_within_changes_and_steps() -> None:
    hypothesis = pytest.importorskip("hypothesis")

    @hypothesis.settings(database=None, max_examples=100, derandomize=True)
    @hypothesis.given(tape=schedules(changes=3, steps=10, level=Level.WAKE))
    def test(tape: Tape) -> None:
        for _ in range(30):
            tape.choose(2, "x")
        assert isinstance(tape.strategy, Replay)
        assert sum(tape.values) <= 3
        assert not any(tape.values[10:])
        assert tape.level is Level.WAKE

    test()


def test_without_hypothesis_the_error_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.setitem(sys.modules, "hypothesis.strategies", None)
    with pytest.raises(UsageError, match="needs hypothesis: pip install"):
        schedules()


def test_importing_the_module_does_not_import_hypothesis() -> None:
    program = "import sys, loopcore.sim.hypothesis; assert 'hypothesis' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_drawn_networks_are_those_that_a_simulation_takes() -> None:
    hypothesis = pytest.importorskip("hypothesis")
    names = ["main", "a", "b"]

    @hypothesis.settings(database=None, max_examples=30, derandomize=True, deadline=None)
    @hypothesis.given(tape=schedules(), link=links(longest=0.5), groups=partitions(names))
    def test(tape: Tape, link, groups) -> None:
        async def main() -> None:
            sim.host("a")
            sim.host("b")
            sim.link("a", "b", **link)
            sim.partition(*groups)
            sim.heal()

        assert sim.simulate(main, tape).error is None
        assert max(link["delays"]) <= 0.5
        assert sorted(groups[0] + groups[1]) == sorted(names)

    test()


def test_every_search_finds_a_race() -> None:
    async def main() -> None:
        assert not sim.choose(3, "coin: heads, tails or the edge")

    for by in ("mixed", "random", "pct", "bounded", "coverage"):
        failure = sim.search(main, by=by).failure
        assert failure is not None
        assert [choice.value for choice in failure.changes] == [1]
    assert sim.search(main, by="fifo", seeds=range(3)).failure is None
    with pytest.raises(UsageError, match="no search 'all'; choose one of mixed"):
        sim.search(main, by="all")
