"""Runnable: whatever the ready queue and the readiness table can hold.

A callback's Handle, a Task that is due for its next step, the reading half of a transport: the tick treats
them alike and makes one virtual call for each. That a Task stands in the queue itself is what makes waking
it cheap: no Handle, no `call_soon`, no copy of a context (docs/adr/0007).

Compiled, `_run` is a C method, so that the call stays one also for classes whose instances have a dict, where a
`cpdef` method would first be looked up in it. Python classes may define `_run` all the same; Python code that
wants to call it of whatever comes uses `run`.
"""

from typing import Any, Final

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

_RUN: Final = "_run"


class Runnable:
    """Base of everything the tick can run."""

    __slots__ = ()

    def _run(self) -> None:
        """Do the work that is due. Thread: the loop's own.

        Reports its own failures; only SystemExit and KeyboardInterrupt may leave it, and end the run.
        """
        if cython.compiled:
            getattr(self, _RUN)()  # a Python class's, by its name
        else:
            raise NotImplementedError

    def __reduce__(self) -> Any:
        # A copy would be a second task of the same coroutine, a second future that nobody ends.
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def _as_public_handle(self) -> "Runnable":
        """Return what others get to see, and run, in its place. To be called when it has left the ready queue."""
        return self

    def _takes_note(self, result: Any) -> bool:
        """Take note of what a Send has brought, before anything runs in this tick; return whether a turn is wanted."""
        return True


def run(runnable: Runnable) -> None:
    """Do the work of `runnable` that is due, as the tick does."""
    runnable._run()
    if not cython.compiled:
        del runnable  # an exception that lives on keeps this frame, and it a task that has ended
