"""Watchdog: the plugin. Its options and hooks, its log messages and counters."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import loopcore
from loopcore.errors import UsageError
from loopcore.hooks.types import Loop
from loopcore.log import plugin_logger
from loopcore_plugins.watchdog.probing import Probing
from loopcore_plugins.watchdog.report import describe, summarize
from loopcore_plugins.watchdog.request import RequestReader
from loopcore_plugins.watchdog.stall import Stall
from loopcore_plugins.watchdog.watch import Watch
from loopcore_plugins.watchdog.watch_thread import watch_thread

logger = plugin_logger.getChild("watchdog")


SHORTEST = 0.001
"""Seconds; a shorter threshold would only find the system's scheduler, and keep a processor busy."""
LONGEST = 3600.0
"""Seconds; threads cannot wait for arbitrarily long."""


class Watchdog:
    """Finds stalls of the loops it is registered with, names their cause, and reports them while they last.

    `threshold`: seconds without progress after which a loop counts as stalled. A stall of twice that is always found.
    `report_every`: the least seconds between two reports in the log; hooks and counters include every stall.
    `max_reports`: how many reports are written in all; 0 for none, if only hooks and counters are wanted.
    `context`: a context variable as "module:variable", whose value in the stalled task is reported.
    `port`: answer a platform's probes, `/livez` and `/readyz`, over HTTP at `host`; 0 takes any free port. `ports`: how
    many ports from there on may be tried, one for each worker. If no port can be opened, that is logged.
    `file`: touch this file about once a second while the process is live; its name may contain {pid}.
    `max_stall`: the process is not live if a loop makes no progress for so many seconds.
    `max_delay`: it is not ready if the mean delay of the last five seconds is above this, in seconds.
    Raises UsageError for invalid options, and if `file` cannot be written.
    """

    def __init__(
        self,
        *,
        threshold: float = 0.2,
        report_every: float = 1.0,
        max_reports: int = 1000,
        context: str | None = None,
        port: int | None = None,
        host: str = "127.0.0.1",
        ports: int = 1,
        file: Path | None = None,
        max_stall: float = 10.0,
        max_delay: float = 0.5,
    ) -> None:
        if not SHORTEST <= threshold <= LONGEST:
            raise UsageError(f"threshold must be a number of seconds from {SHORTEST} to {LONGEST}, not {threshold}")
        if not report_every >= 0 or max_reports < 0:
            raise UsageError(f"report_every={report_every} and max_reports={max_reports} must not be below zero")
        if not 0 < max_stall < float("inf") or not 0 < max_delay < float("inf"):
            raise UsageError(f"watchdog: max_stall={max_stall} and max_delay={max_delay} must be seconds above zero")
        self.threshold = threshold
        self.report_every = report_every
        self.max_reports = max_reports
        self._probing: Probing | None = None
        if port is not None or file is not None:
            self._probing = Probing(
                port=port, host=host, ports=ports, file=file, max_stall=max_stall, max_delay=max_delay
            )
        self.read_request = RequestReader(context).read
        self._watches: dict[int, Watch] = {}
        self._causes: Counter[str] = Counter()
        self._seconds = 0.0
        self._longest = 0.0
        self._reports = 0
        self._suppressed = 0
        self._ignored = 0
        self._reported_at = float("-inf")
        self._reported: Stall | None = None

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port of the probes, while they are served."""
        return None if self._probing is None else self._probing.address

    @loopcore.hookimpl
    def loopcore_plugin_registered(self, loop: Loop) -> None:
        """Open the probes; start watching `loop` if it is already running, in this thread."""
        if self._probing is not None:
            self._probing.open(loop)
        if loop.is_running():
            self.loopcore_run_started(loop)

    @loopcore.hookimpl
    def loopcore_plugin_unregistered(self, loop: Loop) -> None:
        """Stop watching `loop`."""
        self.loopcore_run_stopped(loop)
        self.loopcore_loop_closed(loop)

    @loopcore.hookimpl
    def loopcore_loop_closed(self, loop: Loop) -> None:
        """Close the probes with the last loop."""
        if self._probing is not None:
            self._probing.close(loop)

    @loopcore.hookimpl
    def loopcore_fork_child(self, loop: Loop) -> None:
        """Forget a copy of a loop. Takes no lock: one of the parent's threads may have held it."""
        watch = self._watches.pop(id(loop), None)
        if watch is not None:
            watch.gone = True
        if self._probing is not None:
            self._probing.forget()

    @loopcore.hookimpl
    def loopcore_run_started(self, loop: Loop) -> None:
        """Start watching `loop`, which runs in this thread."""
        if id(loop) not in self._watches:
            watch = self._watches[id(loop)] = Watch(loop, self.threshold, self)
            watch_thread().add(watch)
            if self._probing is not None:
                self._probing.start(watch)

    @loopcore.hookimpl
    def loopcore_run_stopped(self, loop: Loop) -> None:
        """Stop watching `loop`. The end of a stall may be reported a moment later."""
        watch = self._watches.pop(id(loop), None)
        if watch is not None:
            if self._probing is not None:
                self._probing.stop(watch)
            watch_thread().drop(watch)

    def counters(self) -> dict[str, float]:
        """Return the counters. Thread: any.

        `stalls` and `stalls.<cause>`; `seconds` in all and `longest` of stalls that are over; `reports` written and
        `suppressed` by a limit; `ignored`: times in which the whole process stood still while the loop was idle.
        """
        causes = {f"stalls.{cause}": count for cause, count in self._causes.copy().items()}
        return causes | {
            "stalls": sum(causes.values()),
            "seconds": self._seconds,
            "longest": self._longest,
            "reports": self._reports,
            "suppressed": self._suppressed,
            "ignored": self._ignored,
        }

    # What a watch reports

    def note_standstill(self) -> None:
        """Count it."""
        self._ignored += 1

    def note_stall(self, event: str, loop: Any, stall: Stall) -> None:
        """Count, call the hooks, and log: in this order, because the loop may be stuck in the log."""
        if event == "end":
            self._causes[stall.cause] += 1
            self._seconds += stall.seconds
            self._longest = max(self._longest, stall.seconds)
        loop.probes.cold(f"loopcore_stall_{event}", loop=loop, stall=stall)
        if event == "begin":
            self._report(stall)
        elif stall is self._reported:
            logger.info("%s", summarize(stall))

    def _report(self, stall: Stall) -> None:
        now = time.monotonic()
        if self._reports >= self.max_reports or now - self._reported_at < self.report_every:
            self._suppressed += 1
            return
        self._reports += 1
        self._reported_at = now
        self._reported = stall
        logger.warning("%s", describe(stall))
