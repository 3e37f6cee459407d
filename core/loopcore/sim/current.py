"""The simulation that runs, if one does."""

from typing import Any

from loopcore.errors import UsageError

_running: object = None


def world() -> Any:
    """Return the world of the simulation that runs. Raises UsageError outside one."""
    if _running is None:
        raise UsageError("no simulation runs here; start one with loopcore.sim.run(main)")
    return _running


def is_running() -> bool:
    """Return whether a simulation runs."""
    return _running is not None


def enter(new: object) -> None:
    """Make `new` the world of the simulation that runs; None ends it."""
    global _running
    _running = new
