"""Schedules and networks for Hypothesis: arguments of a property that Hypothesis draws and shrinks with the others.

    @given(tape=schedules(), link=links(), groups=partitions(["db", "web"]))
    def test_nothing_is_lost(tape, link, groups):
        async def main():
            ...
            sim.link("db", "web", **link)
            sim.partition(*groups)

        assert sim.simulate(main, tape).error is None

Needs hypothesis: `pip install "loopcore[testing]"`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from loopcore.errors import UsageError
from loopcore.sim.tape import Level, Replay, Tape

if TYPE_CHECKING:
    from types import ModuleType

    from hypothesis.strategies import SearchStrategy

__all__ = ["links", "partitions", "schedules"]


def schedules(*, changes: int = 20, steps: int = 200, level: Level = Level.IO) -> "SearchStrategy[Tape]":
    """Tapes with at most `changes` answers other than 0 among their first `steps` choices, and a drawn seed.

    The answers are drawn before the test, so a run of any length costs Hypothesis the same. They shrink to the fewest
    and smallest. Raises UsageError if hypothesis is not installed.
    """
    st = _strategies()
    answers = st.dictionaries(st.integers(0, steps - 1), st.integers(1, 8), max_size=changes)
    tapes: SearchStrategy[Tape] = st.builds(
        Tape, st.builds(Replay, answers), seed=st.integers(0, 2**32 - 1), level=st.just(level)
    )
    return tapes


def links(*, longest: float = 1.0) -> "SearchStrategy[dict[str, Any]]":
    """Keyword arguments of `sim.link`: delays of at most `longest` seconds, loss, duplicates and bandwidth.

    They shrink to a fast link that loses nothing and has no limit. Raises UsageError if hypothesis is not installed.
    """
    st = _strategies()
    settings: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {
            "delays": st.lists(st.floats(0.0, longest), min_size=1, max_size=4),
            "loss": st.sampled_from([0.0, 0.01, 0.1, 0.5]),
            "duplicates": st.sampled_from([0.0, 0.01, 0.1, 0.5]),
            "bandwidth": st.sampled_from([None, 1e6, 1e4]),
        }
    )
    return settings


def partitions(hosts: Sequence[str]) -> "SearchStrategy[tuple[list[str], list[str]]]":
    """Two groups of `hosts`, as `sim.partition` takes them; they shrink to all on one side.

    Raises UsageError if hypothesis is not installed.
    """
    st = _strategies()
    sides = st.lists(st.booleans(), min_size=len(hosts), max_size=len(hosts))
    groups: SearchStrategy[tuple[list[str], list[str]]] = sides.map(
        lambda other: (
            [name for name, is_other in zip(hosts, other, strict=True) if not is_other],
            [name for name, is_other in zip(hosts, other, strict=True) if is_other],
        )
    )
    return groups


def _strategies() -> "ModuleType":
    try:
        import hypothesis.strategies as st
    except ImportError as error:
        raise UsageError('loopcore.sim.hypothesis needs hypothesis: pip install "loopcore[testing]"') from error
    return st
