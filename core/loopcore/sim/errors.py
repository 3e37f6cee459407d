"""Errors of the simulation."""

from loopcore.errors import LoopcoreError, UsageError
from loopcore.sim import current


class NotSimulatedError(LoopcoreError, RuntimeError):
    """The program called something that the simulation does not cover; nothing real was touched.

    The message says what was called, from which line of the program, and what to do instead. The running world keeps
    it in `refused`, since programs and libraries catch errors.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        if current.is_running():
            current.world().refused.append(message)


class NestedSimulationError(UsageError):
    """A simulation was started inside another one."""


class SimulationError(LoopcoreError):
    """The simulated program cannot go on; the message says why."""


class DeadlockError(SimulationError):
    """The program waits, and nothing is left that could happen."""


class LivelockError(SimulationError):
    """The program goes on without an end: past its limit of simulated time, or in steps that take none."""
