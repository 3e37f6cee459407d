"""Observers: what the loop tells its observers, and which events are wanted at all.

The observers of a loop are the plugins that are instances of `loopcore.hooks.observer.Observer`, and the meter. The
parts of the loop test `wants` before they describe an event, so that an event that nobody wants costs nothing else.
"""

from typing import Any

from loopcore.hooks.observer import Observer
from loopcore.kernel.probes import Probes
from loopcore.log import own_logger


class Observers:
    """The observers of one loop. Thread: the loop's own, except for events that come from others."""

    __slots__ = ("wants", "_present", "_probes")

    def __init__(self, probes: Probes) -> None:
        self.wants: int = 0
        """The events that at least one observer wants."""
        self._present: tuple[Observer, ...] = ()
        self._probes: Probes = probes

    def choose(self, present: tuple[Observer, ...]) -> None:
        """Adopt the present observers and what they want."""
        self._present = present
        self.wants = 0
        for observer in present:
            self.wants |= observer.wants

    def note(self, event: int, what: Any, number: int) -> None:
        """Tell the observers that want it of an event. One that raises is removed."""
        for observer in self._present:
            if observer.wants & event:
                try:
                    observer.note(event, what, number)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException:
                    if not self._probes.remove_failed("note", observer):
                        own_logger.exception("a measurement failed: %r raised", observer)
