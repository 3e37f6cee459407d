"""Errors of the simulation."""

from loopcore.errors import LoopcoreError


class NotSimulatedError(LoopcoreError, RuntimeError):
    """The program called something that the simulation does not cover; nothing real was touched.

    The message says what was called, from which line of the program, and what to do instead.
    """
