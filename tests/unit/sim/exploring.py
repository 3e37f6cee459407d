"""Running a model under a search, without a simulated machine."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from loopcore.sim.search import mixed
from loopcore.sim.tape import Level, Strategy, Tape


class Outcome(NamedTuple):
    """One explored run; `error` is what the program raised."""

    seed: int
    tape: Tape
    error: BaseException | None


def explore(
    run_once: Callable[[Tape], object],
    *,
    strategy_of: Callable[[int], Strategy | None] = mixed,
    seeds: Iterable[int] = range(1_000),
    level: Level = Level.IO,
) -> Iterator[Outcome]:
    """Call `run_once` with a new tape for each seed, and yield what came of it; stop iterating to stop.

    Ends with the seeds, or when `strategy_of` returns None: its runs are exhausted. Every exception is an outcome,
    CancelledError, SystemExit and pytest's failures too; only KeyboardInterrupt is raised.
    """
    for seed in seeds:
        strategy = strategy_of(seed)
        if strategy is None:
            return
        tape = Tape(strategy, seed=seed, level=level)
        failure: BaseException | None = None
        try:
            run_once(tape)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = error
        yield Outcome(seed, tape, failure)
