"""Schedules for Hypothesis: a tape is one more argument of a property, and Hypothesis shrinks it with the others.

    @given(tape=schedules(), items=st.lists(st.integers()))
    def test_queue_keeps_the_order(tape, items): ...

Needs hypothesis: `pip install "loopcore[testing]"`.
"""

from typing import TYPE_CHECKING

from loopcore.errors import UsageError
from loopcore.sim.tape import Level, Replay, Tape

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["schedules"]


def schedules(*, changes: int = 20, steps: int = 200, level: Level = Level.IO) -> "SearchStrategy[Tape]":
    """Tapes with at most `changes` answers other than 0 among their first `steps` choices, and a drawn seed.

    The answers are drawn before the test, so a run of any length costs Hypothesis the same. They shrink to the fewest
    and smallest. Raises UsageError if hypothesis is not installed.
    """
    try:
        import hypothesis.strategies as st
    except ImportError as error:
        raise UsageError('loopcore.sim.hypothesis needs hypothesis: pip install "loopcore[testing]"') from error
    answers = st.dictionaries(st.integers(0, steps - 1), st.integers(1, 8), max_size=changes)
    return st.builds(Tape, st.builds(Replay, answers), seed=st.integers(0, 2**32 - 1), level=st.just(level))
