"""Runnable: the base of everything that the ready queue and the readiness table can hold.

A callback's Handle, a Task that is due for its next step, the reading half of a transport: the tick treats them alike
and makes one virtual call for each. Waking a Task is cheap because the Task itself is in the queue: no Handle, no
`call_soon`, no copy of a context (docs/adr/0007).

Compiled, `_run` is a C method, so that it is one call also for classes whose instances have a dict, where a `cpdef`
method would first be looked up in that dict. Python classes may define `_run` all the same; Python code that has to run
an arbitrary Runnable calls `run`.
"""

from typing import TYPE_CHECKING, Final, NoReturn

from loopcore.hooks.observer import Entry
from loopcore.hooks.sources import IO

if TYPE_CHECKING:
    from collections.abc import Callable

_IO = IO
_RUN: Final = "_run"


class Runnable(Entry):
    """Base of everything the tick can run."""

    __slots__ = ()

    def _run(self) -> None:
        """Do the work that is due. Thread: the loop's own.

        Reports its own failures; only SystemExit and KeyboardInterrupt may leave it, and end the run.
        """
        method: "Callable[[Runnable], object] | None" = None if _IS_NAMED else getattr(type(self), _RUN, None)
        if method is None:
            raise NotImplementedError
        method(self)

    def __reduce__(self) -> NoReturn:
        # A copy would be a second task of the same coroutine, or a second future that never ends.
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def _as_public(self) -> object:
        """Return the object that programs and hooks know as this one."""
        return self

    def _source(self) -> int:
        """Return the source of this object as an entry of the ready queue (`loopcore.hooks.sources`)."""
        return _IO

    def _discard(self) -> None:
        """Drop what this holds until it runs: the loop is closed, so it never runs."""

    def _needs_turn_after(self, result: object) -> bool:
        """Note the result of a Send, right after the wait; return whether this object needs a turn."""
        return True


_IS_NAMED: Final = _RUN in vars(Runnable)
"""Whether `_run` is a method that Python can look up. Compiled, only one that a Python class defines is."""


def run(runnable: Runnable) -> None:
    """Run `runnable`, as the tick does."""
    runnable._run()
    del runnable  # a live traceback would pin this frame, and through it the finished task
