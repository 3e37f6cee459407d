"""Searching for a failure, shrinking it, and proving that a program is deterministic."""

import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from loopcore.errors import UsageError
from loopcore.sim.arguments import checked_seeds
from loopcore.sim.errors import SimulationError
from loopcore.sim.report.failure import failure_text
from loopcore.sim.report.failure import in_words as choices_in_words
from loopcore.sim.running import Main, Outcome, simulate
from loopcore.sim.search import Coverage, DelayBounded, Fifo, Pct, Random, Replay, mixed
from loopcore.sim.shrinking import shrunk
from loopcore.sim.tape import Choice, Level, Strategy, Tape

SearchName: TypeAlias = Literal["mixed", "random", "pct", "fifo", "bounded", "coverage"]
SEARCHES: Final[dict[SearchName, Callable[[], Callable[[int], Strategy | None]]]] = {
    "mixed": lambda: mixed,
    "random": lambda: Random,
    "pct": lambda: lambda seed: Pct(3, 100, seed),
    "fifo": lambda: lambda seed: Fifo(),
    "bounded": lambda: DelayBounded(2),
    "coverage": Coverage,
}
"""The searches by name."""

OF_CHOICES: Final = ("bounded", "coverage")
"""Searches whose runs differ by their choices alone: the random numbers of the program are the same in all of them."""


class SimulationFailedError(SimulationError):
    """A simulated run has failed; the message has the seed, what differs from asyncio's order, and the token."""


@dataclass
class Failure:
    """A run that failed, with the fewest choices found that differ from asyncio's order."""

    seed: int
    error: BaseException
    outcome: Outcome
    token: str
    """For `replay`: it repeats the run in another process."""

    @property
    def changes(self) -> list[Choice]:
        """The choices that differ from 0, in order."""
        return [choice for choice in self.outcome.tape.choices if choice.value]


@dataclass
class Search:
    """What a search has seen."""

    runs: int = 0
    seconds: float = 0.0
    """Simulated seconds of all runs."""
    steps: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    """In how many runs the program came to each place that it marks by `reached`."""
    refused: set[str] = field(default_factory=set)
    """What programs called that is not simulated, and went on all the same."""
    failure: Failure | None = None
    is_exhausted: bool = False
    """There are no more runs to try."""


def search(
    main: Main[Any],
    *,
    seeds: int | Iterable[int] = 1000,
    by: SearchName = "mixed",
    level: Level = Level.IO,
    limit: float | None = 3600.0,
    shrinks: int = 500,
    progress: Callable[[Search], object] | None = None,
) -> Search:
    """Run `main` with one seed after the other until a run fails; shrink that one with at most `shrinks` more runs.

    `seeds` are the seeds, or how many there are from 0 on. `by` is one of SEARCHES. `progress` is called after each
    run. An exception of `main` is in the result. Raises UsageError for wrong arguments.
    """
    if by not in SEARCHES:
        raise UsageError(f"there is no search {by!r}; choose one of {', '.join(SEARCHES)}")
    seen = Search()
    strategy_of = SEARCHES[by]()
    for seed in checked_seeds(seeds):
        strategy = strategy_of(seed)
        if strategy is None:
            seen.is_exhausted = True
            break
        outcome = simulate(main, Tape(strategy, seed=0 if by in OF_CHOICES else seed, level=level), limit=limit)
        seen.runs += 1
        seen.seconds += outcome.seconds
        seen.steps += outcome.steps
        seen.reached.update(outcome.reached.keys())
        seen.refused.update(outcome.refused)
        if outcome.error is not None:
            seen.failure = _shrunk(main, outcome, limit, shrinks)
            break
        if progress is not None:
            progress(seen)
    if not seen.runs and not seen.is_exhausted:
        raise UsageError("there is no seed to try: `seeds` is empty")
    return seen


def check(
    main: Main[Any],
    *,
    seeds: int | Iterable[int] = 1000,
    by: SearchName = "mixed",
    level: Level = Level.IO,
    limit: float | None = 3600.0,
) -> Search:
    """Run `main` with one seed after the other. Raises SimulationFailedError, from the program's own, if one fails."""
    seen = search(main, seeds=seeds, by=by, level=level, limit=limit)
    if seen.failure is not None:
        name = getattr(main, "__name__", "")
        replay_with = f"loopcore.sim.replay({name if name.isidentifier() else 'main'}, {{token!r}})"
        raise SimulationFailedError(in_words(seen.failure, replay_with)) from seen.failure.error
    return seen


def _shrunk(main: Main[Any], outcome: Outcome, limit: float | None, budget: int) -> Failure:
    wanted, tape = kind_of(outcome.error), outcome.tape

    def run_once(strategy: Strategy) -> Outcome | None:
        again = simulate(main, Tape(strategy, seed=tape.seed, level=tape.level), limit=limit)
        return again if kind_of(again.error) == wanted else None

    best = shrunk(run_once, outcome, budget)
    assert best.error is not None
    return Failure(tape.seed, best.error, best, best.tape.token())


def kind_of(error: BaseException | None) -> object:
    """Return what makes two failures the same: the class of the exception and where it was raised."""
    if error is None:
        return None
    error = innermost(error)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_machine(frame.filename)] or frames
    return type(error), (own[-1].filename, own[-1].lineno) if own else None


@cache
def _machine_folders() -> tuple[str, ...]:
    """Return the folders of the packages that a failure is not to be blamed on."""
    packages = [sys.modules.get(name) for name in ("loopcore", "loopcore_backends", "asyncio")]
    return tuple(os.path.join(path, "") for package in packages if package is not None for path in package.__path__)


def _is_machine(file: str) -> bool:
    return file.startswith(_machine_folders())


def innermost(error: BaseException) -> BaseException:
    """Return the first of the exceptions that are in a group, or the exception itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def in_words(failure: Failure, replay_with: str = "loopcore.sim.replay(main, {token!r})") -> str:
    """Return the failure as a text: the error, what differs from asyncio's order, the last events, how to replay it."""
    text = failure_text(
        failure.error,
        choices=choices_in_words(failure.outcome.tape.choices),
        log=failure.outcome.log,
        replay=replay_with.format(token=failure.token),
    )
    return f"seed {failure.seed}: {text}"


@dataclass
class Divergence:
    """Where two runs of the same seed differ first."""

    seed: int
    where: str


def diverges(main: Main[Any], seed: int, *, level: Level = Level.IO, limit: float | None = 3600.0) -> Divergence | None:
    """Run `main` twice with the same seed; return the first difference, None if there is none."""
    first = simulate(main, Tape(mixed(seed), seed=seed, level=level), limit=limit)
    replay = Replay(first.tape.choices)
    second = simulate(main, Tape(replay, seed=seed, level=level), limit=limit)
    replay.end()
    if replay.divergence is not None:
        frames = [frame for frame in replay.divergence_stack or () if not _is_machine(frame.filename)]
        stack = "".join(traceback.format_list(frames[-3:]))
        return Divergence(seed, f"{replay.divergence}\n{stack}".rstrip())
    for position, (one, other) in enumerate(zip(first.log, second.log, strict=False)):
        if one != other:
            return Divergence(seed, f"entry {position} of the log was {one} and is now {other}")
    if len(first.log) != len(second.log) or kind_of(first.error) != kind_of(second.error):
        return Divergence(seed, "one run went on for longer, or failed otherwise, than the other")
    return None
