"""Observers: what the loop tells its observers, and which events are wanted at all.

The observers of a loop are those that its plugins have made (`loopcore_make_observer`), and the meter. The parts of the
loop test `wants` before they describe an event, so that an event that nobody wants costs nothing else.
"""

from typing import Any

from loopcore.errors import UsageError
from loopcore.hooks.observer import Observer
from loopcore.kernel.probes import Probes
from loopcore.log import own_logger


class Observers:
    """The observers of one loop. Thread: the loop's own, except for events that come from others."""

    __slots__ = ("wants", "_made", "_present", "_probes")

    def __init__(self, probes: Probes) -> None:
        self.wants: int = 0
        """The events that at least one observer wants."""
        self._made: list[tuple[object, Observer]] = []  # with the plugin
        self._present: tuple[Observer, ...] = ()
        self._probes: Probes = probes

    def update(self, loop: Any) -> None:
        """Have the plugins that have come make their observers, and drop those of the plugins that have gone."""
        made = []
        for plugin, make in self._probes.observer_makers:
            observer = next((observer for owner, observer in self._made if owner is plugin), None)
            if observer is None:
                try:
                    observer = _checked(make(loop))
                except Exception:
                    self._probes.remove_failed("loopcore_make_observer", plugin)
            if observer is not None:
                made.append((plugin, observer))
        self._made = made

    def choose(self, meter: Observer | None) -> None:
        """Adopt what the observers want now; `meter` is the loop's own, if it has one."""
        present = [] if meter is None else [meter]
        present += [observer for _, observer in self._made]
        self._present = tuple(present)
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
                    self._remove(observer)

    def _remove(self, failed: Observer) -> None:
        for plugin, observer in self._made:
            if observer is failed:
                self._probes.remove_failed("the note() of its observer", plugin)
                return
        own_logger.exception("a measurement failed: %r raised", failed)


def _checked(made: Any) -> Observer | None:
    if made is None or isinstance(made, Observer):
        return made
    raise UsageError(f"loopcore_make_observer returned {made!r}, not a loopcore.hooks.observer.Observer")
