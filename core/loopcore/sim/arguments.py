"""What callers give to a simulation, checked: each error says what was wrong, and what to give instead."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from loopcore.errors import UsageError


class NoCoroutineError(UsageError):
    """A function that was to return a coroutine has returned something else."""


def checked_main(main: object, call: str) -> None:
    """Raise UsageError unless `main` is a function; `call` shows how it is passed, as "run(main)"."""
    if inspect.iscoroutine(main):
        main.close()
        raise UsageError(f"pass the function, not the coroutine: every run has to call it again: {call}")
    if not callable(main):
        raise UsageError(f"a simulation runs a coroutine function without arguments, not {main!r}")


def called(main: Callable[[], Coroutine[Any, Any, Any]]) -> Coroutine[Any, Any, Any]:
    """Return the coroutine of `main()`. Raises NoCoroutineError if it returns something else."""
    made: object = main()
    if not isinstance(made, Awaitable):
        raise NoCoroutineError(
            f"{getattr(main, '__qualname__', main)}() returned {made!r}, which cannot be awaited; "
            "give a function that is defined with `async def`, or one that calls it and returns the coroutine"
        )
    return made  # type: ignore[return-value]  # a future will do


def checked_seed(seed: object) -> int:
    """Return `seed` if it is a whole number of 0 or more. Raises UsageError."""
    if not isinstance(seed, int):
        raise UsageError(f"a seed is a whole number, 0 or more, not {seed!r}")
    if seed < 0:
        raise UsageError(f"a seed is 0 or more, this is {seed}")
    return seed


def checked_seeds(seeds: object) -> Iterable[int]:
    """Return the seeds to try: those of an iterable, or as many as a number says. Raises UsageError."""
    if isinstance(seeds, int):
        if seeds < 1:
            raise UsageError(f"seeds is how many schedules to try, 1 or more, not {seeds}")
        return range(seeds)
    if isinstance(seeds, (str, bytes)) or not isinstance(seeds, Iterable):
        raise UsageError(f"seeds is how many schedules to try, or an iterable of seeds, not {seeds!r}")
    return seeds


def checked_limit(limit: object) -> None:
    """Raise UsageError unless `limit` is None or a number above 0."""
    if limit is not None and (not isinstance(limit, (int, float)) or not limit > 0.0):
        raise UsageError(f"limit is in simulated seconds, above 0, or None for no limit, not {limit!r}")
