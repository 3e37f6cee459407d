"""The log of a simulation: what happened on which host, in order."""

from typing import NamedTuple


class LogEntry(NamedTuple):
    """Something that happened. Its text is for people and the same in every run of the same tape."""

    when: float
    """Seconds of simulated time since the beginning of the run."""
    host: str
    """The name of the host on which it happened."""
    kind: str
    """"send", "arrive", "connect", "accept", "close", "reset", "timer", "job", "cancel", "crash", "note" and others."""
    text: str
    peer: str = ""
    """The name of the other host, if there is one."""
    flow: int = 0
    """The number of a message, which joins its "send" with its "arrive"; 0 if there is none."""
