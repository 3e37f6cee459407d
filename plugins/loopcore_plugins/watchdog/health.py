"""Health: whether this process is live and ready, for the probes of a platform such as Kubernetes.

Live: every loop that runs has made progress within a limit. It ticks, or it waits, and a posted callback wakes it. A
process in which no loop runs is live: it is starting, or ending. Ready: live, a loop runs, the mean delay of each loop
over the last seconds is within a limit, and the program has not called `set_ready(False)`.

The answers are computed when they are asked for, in the thread that asks, from counters of the loops and the stacks of
their threads. They need neither a loop nor a lock that a loop's thread may hold. They cover all loops of the process
whose watchdog has probes, because a platform restarts the process as a whole.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from loopcore_plugins.watchdog.delays import DelaySampler
from loopcore_plugins.watchdog.stacks import callback_of, innermost_of_program, stack_of
from loopcore_plugins.watchdog.watch import Watch

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Trouble: TypeAlias = dict[str, Any]
"""Why a probe fails, as in the body of its answer: `cause`, and what is known; empty if it succeeds."""


class Run(NamedTuple):
    """A run of a loop, and the limits of its plugin, in seconds."""

    watch: Watch
    delays: DelaySampler
    max_stall: float
    max_delay: float

    def stall(self) -> Trouble:
        """Return why the loop is not live. Thread: any."""
        seconds = self.watch.stuck_for(time.monotonic())
        if seconds >= self.max_stall:
            stall = self.watch.stall
            cause = "stalled" if stall is None else stall.cause
            return {"cause": cause, "seconds": round(seconds, 1)} | self._where()
        seconds = self.delays.unanswered() if self.watch.loop.is_waiting() else 0.0
        return {"cause": "unresponsive", "seconds": round(seconds, 1)} if seconds >= self.max_stall else {}

    def delay(self) -> Trouble:
        """Return why the loop is too late to be ready. Thread: any."""
        delay = self.delays.mean()
        if delay <= self.max_delay:
            return {}
        return {"cause": "delay", "delay": round(delay, 3), "max_delay": self.max_delay} | self._where()

    def _where(self) -> dict[str, str]:
        """Return the line that the loop executes now, and its task, as far as known."""
        stall = self.watch.stall
        place = None if stall is None else stall.place
        if place is None and not self.watch.loop.is_waiting():
            place = innermost_of_program(callback_of(stack_of(self.watch.thread_id)))
        where = {} if place is None else {"at": str(place)}
        return where if stall is None or stall.task is None else where | {"task": stall.task.name}


class _Process:
    """What the probes of this process ask about."""

    def __init__(self) -> None:
        self.runs: tuple[Run, ...] = ()
        self.not_ready: Trouble = {}
        self.lock = threading.RLock()
        """Held to change `runs`; reentrant, because a garbage collection under it may end a run."""


_process = _Process()


def add(run: Run) -> None:
    """Include `run`. Thread: its loop's."""
    with _process.lock:
        _process.runs += (run,)


def remove(run: Run) -> None:
    """Leave `run` out. Thread: any."""
    with _process.lock:
        _process.runs = tuple(each for each in _process.runs if each is not run)


def set_ready(ready: bool, reason: str = "") -> None:
    """Say whether this process wants requests: `/readyz` fails after `set_ready(False)`, until `set_ready(True)`.

    `reason` is part of the answer. This needs neither a loop nor the plugin, so it can be called at any time: before
    the first loop, while a cache is filled, or at the end, before the server stops. A forked child is ready. Thread:
    any.
    """
    _process.not_ready = {} if ready else {"cause": "program", "reason": reason}


def liveness() -> Trouble:
    """Return why this process is not live; empty if it is. Thread: any."""
    return next(filter(None, (run.stall() for run in _process.runs)), {})


def readiness() -> Trouble:
    """Return why this process is not ready; empty if it is. Thread: any."""
    runs = _process.runs
    if trouble := liveness() or _process.not_ready:
        return trouble
    if not runs:
        return {"cause": "not_running"}
    return next(filter(None, (run.delay() for run in runs)), {})


def _application(name: str, probe: Callable[[], Trouble]) -> "WSGIApplication":
    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        trouble = probe()
        body = json.dumps({name: not trouble, **trouble}).encode() + b"\n"
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response("503 Service Unavailable" if trouble else "200 OK", headers)
        return [body]

    return answer


ROUTES = {"/livez": _application("live", liveness), "/readyz": _application("ready", readiness)}
"""The routes of an endpoint."""


def _reset_in_child() -> None:
    """Reset in a forked child: the loops are the parent's, and the lock may be held."""
    global _process
    _process = _Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
