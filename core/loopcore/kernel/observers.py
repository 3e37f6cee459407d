"""Observers: how events of the loop are reported, and which events are wanted at all.

The observers of a loop are those that its plugins have made (`loopcore_make_observer`), and the meter. The parts of the
loop test `wants` before they describe an event, so that an event that no observer wants costs nothing else.
"""

import inspect
from typing import TYPE_CHECKING

from loopcore.errors import UsageError
from loopcore.hooks.observer import POSTED, Observer
from loopcore.kernel.probes import Probes
from loopcore.log import own_logger

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if TYPE_CHECKING:
    from loopcore.kernel.runnable import Runnable
    from loopcore.kernel.scheduler import Scheduler

_POSTED = POSTED  # compiled, a C integer


class Observers:
    """The observers of one loop. Thread: the loop's own, except for events that come from others."""

    __slots__ = ("wants", "_made", "_present", "_sole", "_of_posts", "_probes")

    def __init__(self, probes: Probes) -> None:
        self.wants: int = 0
        """The events that at least one observer wants."""
        self._made: list[tuple[object, Observer]] = []  # with the plugin
        self._present: tuple[Observer, ...] = ()
        self._sole: Observer | None = None  # the only one, which then wants all that is reported
        self._of_posts: tuple[Observer, ...] = ()  # those that want POSTED: read by other threads
        self._probes: Probes = probes

    def update(self, loop: "Scheduler") -> None:
        """Create the observers of new plugins, and drop those of plugins that were removed."""
        made = []
        for plugin, make in self._probes.observer_makers:
            observer = next((observer for owner, observer in self._made if owner is plugin), None)
            if observer is None:
                try:
                    observer = _checked(make(loop))
                except (SystemExit, KeyboardInterrupt, UsageError):
                    self._probes.unregister(plugin)
                    raise
                except BaseException:
                    self._probes.remove_failed("loopcore_make_observer", plugin)
            if observer is not None:
                made.append((plugin, observer))
        with cython.critical_section(self):
            self._made = made

    def adopt(self, meter: Observer | None) -> None:
        """Note which observers there are, and what they want; `meter` is the loop's own, if it has one."""
        present = [] if meter is None else [meter]
        present += [observer for _, observer in self._made or ()]  # or None: the loop was never initialised
        self._present = tuple(present)
        of_posts = tuple([observer for observer in present if observer.wants & POSTED])
        with cython.critical_section(self):
            self._of_posts = of_posts
        self._sole = present[0] if len(present) == 1 else None
        wants = 0
        for observer in present:
            wants |= observer.wants
        self.wants = wants  # at once, for other threads

    def report(self, event: int, what: "Runnable | None", number: int) -> None:
        """Report an event to the observers that want it. One that fails is removed."""
        if self._sole is not None:
            self._tell(self._sole, event, what, number)
        else:
            self._tell_all(event, what, number)

    def report_posted(self, what: "Runnable") -> None:
        """`report` POSTED in another thread than the loop's, which may change its observers meanwhile."""
        with cython.critical_section(self):
            observers = self._of_posts
        for observer in observers:
            self._tell(observer, _POSTED, what, 0)

    def _tell_all(self, event: int, what: "Runnable | None", number: int) -> None:
        for observer in self._present:
            if observer.wants & event:
                self._tell(observer, event, what, number)

    # Without a check for None the compiled call cannot raise, and Cython leaves out the except clause.
    @cython.nonecheck(False)  # type: ignore[untyped-decorator]
    def _tell(self, observer: Observer, event: int, what: "Runnable | None", number: int) -> None:
        try:
            observer.tell(event, what, number)
        except BaseException as exc:
            observer.failure = exc
        if observer.failure is not None:
            self._remove(observer)

    def _remove(self, failed: Observer) -> None:
        with cython.critical_section(self):  # a post in another thread may fail at the same time
            error, failed.failure = failed.failure, None
            made = self._made
        if error is None:
            return
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            raise error  # of a signal handler
        for plugin, observer in made:
            if observer is failed:
                self._probes.remove_failed("its observer", plugin, error)
                return
        own_logger.error("a measurement failed: %r raised", failed, exc_info=error)


def _checked(made: object) -> Observer | None:
    if made is None:
        return None
    if not isinstance(made, Observer):
        raise UsageError(f"loopcore_make_observer returned {made!r}, not a loopcore.hooks.observer.Observer")
    wants: object = getattr(made, "wants", 0)
    if not wants:
        raise UsageError(f"{made!r} wants no events: call Observer.__init__, with the events or without")
    if not isinstance(wants, int):
        raise UsageError(f"{made!r} wants {wants!r}: combine events of loopcore.hooks.observer with |")
    if inspect.iscoroutinefunction(made.note):
        raise UsageError(f"the note of {made!r} would never run: it has an `async`")
    return made
