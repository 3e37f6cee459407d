"""Convoy: the plugin. Its options and hooks."""

import loopcore
from loopcore.build_info import has_gil
from loopcore.errors import UsageError
from loopcore.hooks.types import Loop
from loopcore.log import plugin_logger
from loopcore_plugins.convoy.competition import Competition
from loopcore_plugins.convoy.switch_interval import SWITCH_INTERVAL

logger = plugin_logger.getChild("convoy")

SHORTEST = 1e-6
LONGEST = 1.0
"""Seconds; sys.setswitchinterval counts whole microseconds."""


class Convoy:
    """Keeps loops responsive next to threads that compute, by a shorter switch interval while there are any.

    `interval`: the switch interval in seconds while other threads compute. A loop whose event has arrived waits about
    that long for the GIL, for each thread that computes.
    `hold`: seconds after which the program's own interval is restored, if no other thread computes any more, or the
    loop has nothing to do.
    Without the GIL the plugin does nothing. Raises UsageError for invalid options.
    """

    def __init__(self, *, interval: float = 0.0002, hold: float = 1.0) -> None:
        if not SHORTEST <= interval <= LONGEST:
            raise UsageError(f"interval must be a number of seconds from {SHORTEST} to {LONGEST}, not {interval}")
        if not 0 < hold < float("inf"):
            raise UsageError(f"hold must be a number of seconds above zero, not {hold}")
        self.interval = interval
        self.hold = hold
        self._loops: dict[int, Competition] = {}
        self._periods = 0
        self._seconds = 0.0

    @loopcore.hookimpl
    def loopcore_make_observer(self, loop: Loop) -> Competition | None:
        """Return an observer of the loop's waits."""
        if not has_gil():
            logger.info("convoy has no effect: this Python runs without the GIL, and no thread waits for another")
            return None
        self._loops[id(loop)] = Competition(self.interval, self.hold)
        return self._loops[id(loop)]

    @loopcore.hookimpl
    def loopcore_plugin_registered(self, loop: Loop) -> None:
        """Begin, if the loop is running already."""
        if loop.is_running():
            self.loopcore_run_started(loop)

    @loopcore.hookimpl
    def loopcore_run_started(self, loop: Loop) -> None:
        """Begin to look for threads that compute."""
        if id(loop) in self._loops:
            self._loops[id(loop)].begin(loop)

    @loopcore.hookimpl
    def loopcore_run_stopped(self, loop: Loop) -> None:
        """Restore the program's interval."""
        if id(loop) in self._loops:
            self._loops[id(loop)].end()

    @loopcore.hookimpl
    def loopcore_fork_child(self, loop: Loop) -> None:
        """Restore the program's interval: the threads that computed stayed with the parent."""
        SWITCH_INTERVAL.in_child()
        self.loopcore_run_stopped(loop)

    @loopcore.hookimpl
    def loopcore_plugin_unregistered(self, loop: Loop) -> None:
        """Restore the program's interval."""
        self.loopcore_loop_closed(loop)

    @loopcore.hookimpl
    def loopcore_loop_closed(self, loop: Loop) -> None:
        """Forget the loop."""
        competition = self._loops.pop(id(loop), None)
        if competition is not None:
            competition.end()
            self._periods += competition.periods
            self._seconds += competition.seconds()

    def counters(self) -> dict[str, float]:
        """Return how often the interval was lowered, as `periods`, and for how long, as `seconds`. Thread: any."""
        open_loops = [*self._loops.values()]
        return {
            "periods": self._periods + sum(each.periods for each in open_loops),
            "seconds": self._seconds + sum(each.seconds() for each in open_loops),
        }
