"""Searches: which runs to try, in which order.

- `Fifo` and `Random` (`loopcore.sim.tape`) need no knowledge of the program.
- `Pct` finds failures that need few changes of order, with a known probability for each run.
- `DelayBounded` tries every run with at most so many changes, and says when there are no more.
- `Coverage` changes runs that showed an order of events not seen before.
- `mixed`, the default, draws one of the first three for each seed.

The seed alone repeats a run of `Fifo`, `Random`, `Pct` and `mixed`; the token of its tape repeats any run.
"""

import itertools
from collections.abc import Iterator, Sequence

from loopcore.errors import UsageError
from loopcore.sim.arguments import checked_seed
from loopcore.sim.tape import Choice, Fifo, Random, Replay, Strategy, chance_of, fitted, stream

__all__ = ["Coverage", "DelayBounded", "Fifo", "Pct", "Random", "Replay", "mixed"]


class Pct:
    """Probabilistic concurrency testing for the first `steps` choices, `Random` after them.

    Each actor has a random priority, and the one with the highest goes next. At `depth` - 1 random choices the actor
    that would go next falls below all others. Where the question is not which actor goes next, these choices are
    random and all others are 0.

    Guaranteed: with n actors, each run finds a failure that needs `depth` ordering constraints within `steps` choices
    with a probability of at least 1 / (n * steps ** (depth - 1)) (Burckhardt et al., "A randomized scheduler with
    probabilistic guarantees of finding bugs", ASPLOS 2010). Priorities alone would starve an actor for which one
    of higher priority spins, so they end after `steps`.
    """

    def __init__(self, depth: int, steps: int, seed: int) -> None:
        if depth < 1 or steps < depth - 1:
            raise UsageError(f"Pct takes a depth of 1 or more and at least depth - 1 steps, not {depth} and {steps}")
        self._random = stream(seed, "pct").random
        self._after = Random(seed)
        self._steps = steps
        self._step = -1
        self._priorities: dict[str, float] = {}
        self._changes: set[int] = set()
        while len(self._changes) < depth - 1:
            self._changes.add(int(self._random() * steps))

    def next(self, n: int, label: str, keys: Sequence[str]) -> int:
        self._step += 1
        if self._step >= self._steps:
            return self._after.next(n, label, keys)
        change = self._step in self._changes
        if not keys:
            return 1 + int(self._random() * (n - 1)) if change else 0
        first = self._first(keys)
        if change:
            # Below all that never fell; those that fell are in random order among themselves.
            self._priorities[keys[first]] = self._random() - 1.0
            first = self._first(keys)
        return first

    def chance(self, probability: float, label: str) -> bool:
        """Answer whether something of this probability happens."""
        self._step += 1
        return self._random() < probability

    def _first(self, keys: Sequence[str]) -> int:
        priorities = self._priorities
        for key in keys:
            if key not in priorities:
                priorities[key] = self._random()
        return max(range(len(keys)), key=lambda index: priorities[keys[index]])


def mixed(seed: int) -> Strategy:
    """The strategy of `seed`: asyncio's own order for 0; then `Random` and `Pct` in turn, with drawn parameters."""
    if checked_seed(seed) == 0:
        return Fifo()
    if seed % 2:
        return Random(seed)
    draw = stream(seed, "mixed").random
    return Pct(2 + int(draw() * 3), 16 << int(draw() * 8), seed)


class DelayBounded:
    """Depth first through all runs with at most `bound` choices other than 0, each once; the first is asyncio's own.

    An instance is the `strategy_of` of one search, which ends when no run is left. Give it one seed only
    (`itertools.repeat(7)`): the runs must differ by their choices alone. With choices of two, a run of L choices
    has L runs with one change and L * (L - 1) / 2 with two, so raise the bound from 0 by one.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._changes: dict[int, int] = {}
        self._run: _Watched | None = None
        self._pending: list[Iterator[dict[int, int]]] = [iter([{}])]

    def __call__(self, seed: int) -> Strategy | None:
        """The strategy of the next run; call it when the run before has ended. None when no run is left."""
        if self._run is not None and len(self._changes) < self._bound:
            self._pending.append(self._children(self._changes, self._run.choices))
        while self._pending:
            changes = next(self._pending[-1], None)
            if changes is not None:
                self._changes = changes
                self._run = _Watched(Replay(changes))
                return self._run
            self._pending.pop()
        self._run = None
        return None

    @staticmethod
    def _children(changes: dict[int, int], choices: list[Choice]) -> Iterator[dict[int, int]]:
        for position in range(max(changes, default=-1) + 1, len(choices)):
            for value in range(1, choices[position].n):
                yield {**changes, position: value}


class Coverage:
    """Random runs, and changes of those runs that showed a new pair of successive events.

    An event is a label with the actor chosen, or with whether the answer was 0. Good where labels show how far the
    program got. An instance is the `strategy_of` of one search. A seed does not repeat a run, its token does.
    """

    def __init__(self, seed: int = 0) -> None:
        self.pairs: set[tuple[str, str]] = set()
        self._random = stream(seed, "coverage").random
        self._found: list[list[Choice]] = []
        self._run: _Watched | None = None

    def __call__(self, seed: int) -> Strategy:
        """The strategy of the next run; call it when the run before has ended."""
        if self._run is not None:
            choices = self._run.choices
            events = [f"{each.label} {each.keys[each.value] if each.keys else each.value > 0}" for each in choices]
            pairs = set(itertools.pairwise(["", *events]))
            if not pairs <= self.pairs:
                self.pairs |= pairs
                self._found.append(choices)
        strategy: Strategy = Random(seed)
        if self._found and self._random() < 0.75:
            parent = self._found[-1 - int(self._random() ** 2 * len(self._found))]  # rather a recent one
            kept = int(self._random() * (len(parent) + 1))
            strategy = _Then([choice.value for choice in parent[:kept]], strategy)
        self._run = _Watched(strategy)
        return self._run


class _Watched:
    """A strategy that keeps what was asked and answered, for the search that made it."""

    def __init__(self, strategy: Strategy) -> None:
        self.choices: list[Choice] = []
        self._strategy = strategy

    def next(self, n: int, label: str, keys: Sequence[str]) -> int:
        value = self._strategy.next(n, label, keys)
        self.choices.append(Choice(label, n, value, tuple(keys)))
        return value

    def chance(self, probability: float, label: str) -> int:
        value = chance_of(self._strategy, probability, label)
        self.choices.append(Choice(label, 2, value))
        return value


class _Then:
    """Answer from a list, and after its end from another strategy."""

    def __init__(self, values: list[int], after: Strategy) -> None:
        self._values = iter(values)
        self._after = after

    def next(self, n: int, label: str, keys: Sequence[str]) -> int:
        value = next(self._values, None)
        return self._after.next(n, label, keys) if value is None else fitted(value, n)

    def chance(self, probability: float, label: str) -> int:
        value = next(self._values, None)
        return chance_of(self._after, probability, label) if value is None else fitted(value, 2)
