"""Shrinking: a failing run with the fewest choices that differ from 0.

`shrink_labels` comes first where runs are long. It names each change by the label of its question and by how often that
label was asked before, so the others keep their places when one is left out.

`shrink` works on positions, which is what a token has. `shrunk` applies one after the other.

Every candidate is tried by running the program again, so the number of runs is the cost. The passes, repeated until
none finds anything:

1. Remove changes: halves, quarters, down to one at a time, then pairs (Zeller and Hildebrandt, "Simplifying and
   isolating failure-inducing input", 2002). A run without one change may ask more or fewer questions, and then
   the later changes answer the wrong ones: they are also tried up to three positions to the left and right.
2. Make answers smaller.
3. Shorten the run: drop zeros between the changes. Zeros after the last change are dropped from the start.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from loopcore.sim.tape import Choice, Replay, Strategy, Tape, fitted

__all__ = ["Labelled", "shrink", "shrink_labels", "shrunk"]

_SHIFTS = (0, -1, 1, -2, 2, -3, 3)
_PAIRS_UP_TO = 12


class HasTape(Protocol):
    """A run and its choices."""

    @property
    def tape(self) -> Tape:
        """The tape of the run."""


Run = TypeVar("Run", bound=HasTape)


def shrunk(run_once: Callable[[Strategy], Run | None], first: Run, budget: int) -> Run:
    """Return the failing run with the fewest changes that `budget` runs could find: first by labels, then by positions.

    `run_once` runs the program and returns the run if it failed as `first` did. The result is `first` itself if no
    other run failed in that way: then the program is not deterministic, or `budget` is 0.
    """
    best = first

    def fails(strategy: Strategy) -> bool:
        nonlocal best, budget
        budget -= 1
        run = run_once(strategy)
        best = best if run is None else run
        return run is not None

    changes = Labelled.of(first.tape.choices)
    if changes and budget > 0 and fails(ByLabel(changes)):
        shrink_labels(changes, lambda some: fails(ByLabel(some)), budget // 2)
    shrink(best.tape.values, lambda values: fails(Replay(values)), budget)
    return best


def shrink(choices: Sequence[int], fails: Callable[[Sequence[int]], bool], budget: int = 1_000) -> list[int]:
    """A failing run with the fewest answers other than 0 that `budget` runs could find, without zeros at the end.

    `fails` runs the program under `Replay(values)` and says whether it fails in the same way. The result is one that
    failed: unless the budget ended before, leaving out any one change makes it pass. Returns
    `choices` unchanged if they do not fail.
    """
    search = _Shrink(choices, fails, budget)
    if search.try_(search.best):
        search.repeat_passes()
    return _values(search.best)


class Labelled(NamedTuple):
    """A choice other than 0, by its label instead of its position."""

    label: str
    occurrence: int
    """How often the label was asked before."""
    answer: int
    key: str
    """Which actor was picked, if the question was which goes next; `answer` does not count then."""

    @property
    def kind(self) -> str:
        """What the label has before the first colon."""
        return self.label.partition(": ")[0]

    @staticmethod
    def of(choices: Sequence[Choice]) -> "list[Labelled]":
        """Return the choices that differ from 0."""
        found = []
        asked: Counter[str] = Counter()
        for choice in choices:
            if choice.value:
                key = choice.keys[choice.value] if choice.keys else ""
                found.append(Labelled(choice.label, asked[choice.label], choice.value, key))
            asked[choice.label] += 1
        return found


class ByLabel:
    """A strategy that gives the answers of `changes` to the questions with their labels, and 0 to all others."""

    def __init__(self, changes: Sequence[Labelled]) -> None:
        self._changes = {(change.label, change.occurrence): change for change in changes}
        self._asked: Counter[str] = Counter()

    def next(self, n: int, label: str, keys: Sequence[str]) -> int:
        change = self._changes.get((label, self._asked[label]))
        self._asked[label] += 1
        if change is None:
            return 0
        if change.key:
            return keys.index(change.key) if change.key in keys else 0
        return fitted(change.answer, n)


def shrink_labels(
    changes: Sequence[Labelled], fails: Callable[[Sequence[Labelled]], bool], budget: int = 250
) -> list[Labelled]:
    """Return those of `changes` that are needed to fail, as far as `budget` runs can tell: whole kinds, then parts.

    `fails` runs the program under `ByLabel(changes)` and says whether it fails in the same way.
    """
    best = list(changes)

    def try_(candidate: list[Labelled]) -> bool:
        nonlocal best, budget
        if budget <= 0 or len(candidate) == len(best):
            return False
        budget -= 1
        if not fails(candidate):
            return False
        best = candidate
        return True

    for kind, _ in Counter(change.kind for change in best).most_common():
        try_([change for change in best if change.kind != kind])
    size = len(best) // 2
    while size:
        start = 0
        while start < len(best):
            if not try_(best[:start] + best[start + size :]):
                start += size
        size //= 2
    return best


Changes = list[tuple[int, int]]  # (position, value), in order of position


def _values(changes: Changes) -> list[int]:
    values = [0] * (changes[-1][0] + 1 if changes else 0)
    for position, value in changes:
        values[position] = value
    return values


class _Shrink:
    def __init__(self, choices: Sequence[int], fails: Callable[[Sequence[int]], bool], budget: int) -> None:
        self.best: Changes = [(position, value) for position, value in enumerate(choices) if value]
        self.budget = budget
        self._fails = fails
        self._tried: set[tuple[tuple[int, int], ...]] = set()

    def try_(self, candidate: Changes) -> bool:
        """Whether the candidate fails; if so, it is the best one from now on."""
        key = tuple(candidate)
        if self.budget <= 0 or key in self._tried:
            return False
        self._tried.add(key)
        self.budget -= 1
        if not self._fails(_values(candidate)):
            return False
        self.best = candidate
        return True

    def repeat_passes(self) -> None:
        self.try_([])
        before = None
        while self.best != before and self.budget > 0:
            before = self.best
            self.remove()
            self.lower()
            self.shorten()

    def remove(self) -> None:
        size = max(len(self.best) // 2, 1)
        while size:
            start = 0
            while start < len(self.best):
                if not self._remove(start, start + size):
                    start += size
            size //= 2
        if len(self.best) <= _PAIRS_UP_TO:
            while any(self.try_(candidate) for candidate in self._without_pairs()):
                pass

    def _remove(self, start: int, end: int) -> bool:
        left, right = self.best[:start], self.best[end:]
        floor = left[-1][0] if left else -1
        for shift in _SHIFTS if right and end - start == 1 else (0,):
            moved = [(position + shift, value) for position, value in right]
            if (not moved or moved[0][0] > floor) and self.try_(left + moved):
                return True
        return False

    def _without_pairs(self) -> Iterator[Changes]:
        best = self.best
        for first, second in itertools.combinations(range(len(best)), 2):
            yield best[:first] + best[first + 1 : second] + best[second + 1 :]

    def lower(self) -> None:
        for index in range(len(self.best)):
            while any(self.try_(candidate) for candidate in self._lowered(index)):
                pass

    def _lowered(self, index: int) -> Iterator[Changes]:
        best = self.best
        position, value = best[index]
        for lower in sorted({1, value // 2, value - 1} - {0, value}):
            yield [*best[:index], (position, lower), *best[index + 1 :]]

    def shorten(self) -> None:
        for index in range(len(self.best)):
            while any(self.try_(candidate) for candidate in self._shortened(index)):
                pass

    def _shortened(self, index: int) -> Iterator[Changes]:
        best = self.best
        gap = best[index][0] - (best[index - 1][0] + 1 if index else 0)
        for cut in sorted({gap, gap // 2, 1} & set(range(1, gap + 1)), reverse=True):
            yield best[:index] + [(position - cut, value) for position, value in best[index:]]
