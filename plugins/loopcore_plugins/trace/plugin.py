"""Trace: the plugin that implements the hooks and remembers what it needs to draw the events."""

import asyncio
import os
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from loopcore import hookimpl
from loopcore.errors import UsageError
from loopcore.hooks.types import Job, Loop
from loopcore.log import plugin_logger
from loopcore_plugins.trace.ending import LastChance
from loopcore_plugins.trace.naming import (
    describe_callback,
    describe_coroutine,
    describe_error,
    describe_outcome,
    fill_in,
)
from loopcore_plugins.trace.records import FIRST_TASK_TRACK, LOOP_TRACK, Arrow, Mark, Record, Ring, Slice, Step
from loopcore_plugins.trace.writer import write_trace

DEFAULT_FILE = "loopcore-trace-{pid}-{n}.json"
DEFAULT_LIMIT = 200_000
WAITING_ARROWS = 10_000
"""The most arrow origins that are remembered while their targets have not run."""

_instances = count(1)
_now = time.perf_counter_ns


class Trace:
    """Records one loop; writes the file when the loop is closed, before SIGTERM ends the process, or by `write`.

    `file` may contain {pid} and {n}, the number of the trace in this process; `.gz` at its end compresses it.
    `limit` bounds the records in memory, at about 250 bytes each; the oldest are dropped, and counted in the file.
    SIGTERM works for loops that are made in the main thread.
    Raises UsageError for a limit below one, for a missing directory, or if `file` is a directory.
    """

    def __init__(self, file: Path = Path(DEFAULT_FILE), limit: int = DEFAULT_LIMIT) -> None:
        if limit < 1:
            raise UsageError(f"trace keeps at least one record; limit={limit} is too small")
        self.path = fill_in(Path(file), pid=os.getpid(), n=next(_instances))
        if not self.path.parent.is_dir():
            raise UsageError(
                f"trace cannot write {self.path}: there is no directory {self.path.parent}; mkdir -p {self.path.parent}"
            )
        if self.path.is_dir():
            raise UsageError(f"trace cannot write {self.path}: it is a directory")
        self._limit = limit
        self._ring = Ring(limit)
        self._title = "loop"
        self._track_numbers = count(FIRST_TASK_TRACK)
        self._tracks: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self._threads: dict[int, int] = {}
        self._threads_lock = threading.RLock()  # a signal handler or a finalizer that runs inside may write the trace
        self._job_ended: dict[int, int] = {}  # by track: when the last job of that thread ended
        # What is running, innermost last: (track, begin, name of the callback or "" for a task's step).
        self._running: list[tuple[int, int, str]] = []
        # The origins of arrows, by id() of their target, which is kept alive so that its id() is not reused.
        self._origins: dict[int, tuple[object, int, int]] = {}
        self._phases: list[int] = []
        self._tick_began = 0
        self._poll: dict[str, object] | None = None
        self._last_chance = LastChance(self._write_or_report)

    def records(self) -> tuple[list[Record], int]:
        """Return the records, oldest first, and how many were dropped. Thread: any."""
        return self._ring.take()

    def write(self, path: Path | None = None) -> Path:
        """Write the records so far to `path`, by default `self.path`; return it. Thread: any. Raises OSError."""
        records, dropped = self._ring.take()
        with self._threads_lock:
            threads = {track: thread for thread, track in self._threads.items()}
        return write_trace(path or self.path, records, title=self._title, threads=threads, dropped=dropped)

    def _write_or_report(self) -> None:
        try:
            path = self.write()
        except OSError as exc:
            plugin_logger.error("the trace could not be written to %s: %s", self.path, exc)
        else:
            plugin_logger.info("the trace was written to %s", path)

    # The loop

    @hookimpl
    def loopcore_loop_created(self, loop: Loop, backend: Any) -> None:
        self._title = f"loop on {backend.name}"

    @hookimpl
    def loopcore_plugin_registered(self) -> None:
        self._last_chance.take()

    @hookimpl
    def loopcore_plugin_unregistered(self) -> None:
        self._last_chance.leave()
        # Callbacks under way end unseen, and must not count as running when the plugin comes back.
        self._running.clear()
        self._phases.clear()
        self._origins.clear()
        self._tick_began = 0

    @hookimpl
    def loopcore_loop_closed(self) -> None:
        self._last_chance.leave()
        self._write_or_report()

    @hookimpl
    def loopcore_fork_child(self) -> None:
        # The parent writes these records. The child gets new locks: a thread of the parent may have held the old ones.
        self._ring = Ring(self._limit)
        self._threads_lock = threading.RLock()
        self._threads.clear()
        self.path = self.path.with_name(f"fork-{os.getpid()}-{self.path.name}")

    @hookimpl
    def loopcore_exception(self, context: dict[str, Any]) -> None:
        details: dict[str, object] = {
            "message": str(context.get("message")),
            "exception": describe_error(context.get("exception")),
        }
        self._mark("exception", "error", details)

    @hookimpl
    def loopcore_starvation(self, left: int) -> None:
        self._mark("starvation", "error", {"left": left})

    @hookimpl
    def loopcore_signal(self, signum: int) -> None:
        self._mark("signal", "signal", {"signum": int(signum)})

    # Ticks and phases

    @hookimpl
    def loopcore_tick_begin(self) -> None:
        self._tick_began = _now()

    @hookimpl
    def loopcore_tick_end(self) -> None:
        if self._tick_began:  # else the plugin came in the middle of this tick
            self._ring.add(Slice(LOOP_TRACK, "tick", "tick", self._tick_began, _now()))
        self._tick_began = 0
        self._phases.clear()

    @hookimpl
    def loopcore_phase_begin(self, phase: str) -> None:
        self._phases.append(_now())

    @hookimpl
    def loopcore_phase_end(self, phase: str, count: int) -> None:
        if not self._phases:
            return
        begin, details, self._poll = self._phases.pop(), self._poll, None
        if count or details:  # most phases of most ticks are empty: they would fill the ring
            self._ring.add(Slice(LOOP_TRACK, phase, "phase", begin, _now(), details or {"count": count}))

    @hookimpl
    def loopcore_poll_begin(self, timeout: float | None) -> None:
        self._poll = {"timeout": timeout}

    @hookimpl
    def loopcore_poll_end(self, events: int, waited_ns: int) -> None:
        if self._poll is not None:
            self._poll.update(events=events, waited_ns=waited_ns)

    # Callbacks

    @hookimpl
    def loopcore_handle_scheduled(self, handle: Any, source: str) -> None:
        if source == "threadsafe":
            self._begin_arrow_in_thread(handle)
        else:
            self._begin_arrow(handle)

    @hookimpl
    def loopcore_handle_begin(self, handle: Any) -> None:
        begin = _now()
        self._end_arrow(handle, "scheduled", LOOP_TRACK, begin)
        self._running.append((LOOP_TRACK, begin, describe_callback(handle)))

    @hookimpl
    def loopcore_handle_end(self) -> None:
        if self._running:
            _, begin, name = self._running.pop()
            self._ring.add(Slice(LOOP_TRACK, name, "callback", begin, _now()))

    # Tasks

    @hookimpl
    def loopcore_task_spawned(self, task: "asyncio.Task[Any]") -> None:
        self._track_of(task)  # so that tracks are in the order in which tasks were created
        self._begin_arrow(task)

    @hookimpl
    def loopcore_task_woken(self, task: "asyncio.Task[Any]") -> None:
        self._begin_arrow(task)

    @hookimpl
    def loopcore_task_step_begin(self, task: "asyncio.Task[Any]") -> None:
        begin, track = _now(), self._track_of(task)
        self._end_arrow(task, "woken", track, begin)
        self._running.append((track, begin, ""))

    @hookimpl
    def loopcore_task_step_end(self, task: "asyncio.Task[Any]") -> None:
        if not self._running:
            return
        track, begin, _ = self._running.pop()
        self._ring.add(Step(track, task.get_name(), describe_coroutine(task), begin, _now(), describe_outcome(task)))
        if task.done():
            self._tracks.pop(task, None)

    @hookimpl
    def loopcore_task_done(self, task: "asyncio.Task[Any]") -> None:
        self._ring.add(Mark(self._track_of(task), describe_outcome(task), "task", _now(), {"task": task.get_name()}))

    def _track_of(self, task: "asyncio.Task[Any]") -> int:
        track = self._tracks.get(task)
        if track is None:
            track = self._tracks[task] = next(self._track_numbers)
        return track

    # Transports, threads

    @hookimpl
    def loopcore_transport_opened(self, transport: Any) -> None:
        self._mark(f"{type(transport).__name__} opened", "transport", None)

    @hookimpl
    def loopcore_transport_closed(self, transport: Any, exc: BaseException | None) -> None:
        self._mark(f"{type(transport).__name__} closed", "transport", {"exception": describe_error(exc)})

    @hookimpl
    def loopcore_job_submitted(self, job: Job) -> None:
        self._begin_arrow(job)

    @hookimpl
    def loopcore_job_started(self, job: Job) -> None:
        if job.thread_id is not None:
            self._end_arrow(job, "submitted", self._thread_track(job.thread_id), job.started_ns)

    @hookimpl
    def loopcore_job_finished(self, job: Job) -> None:
        if not job.started_ns or job.thread_id is None:
            return  # cancelled before it ran, or not in a thread
        name, track = describe_callback(job.function), self._thread_track(job.thread_id)
        details = {"pool": job.pool, "queued_ns": job.started_ns - job.submitted_ns, "error": describe_error(job.error)}
        self._job_ended[track] = job.finished_ns
        self._ring.add(Slice(track, name, "job", job.started_ns, job.finished_ns, details))

    def _thread_track(self, thread: int) -> int:
        with self._threads_lock:
            return self._threads.setdefault(thread, LOOP_TRACK + 1 + len(self._threads))

    # Marks and arrows

    def _mark(self, name: str, category: str, details: dict[str, object] | None) -> None:
        self._ring.add(Mark(LOOP_TRACK, name, category, _now(), details))

    def _begin_arrow(self, target: object) -> None:
        """Remember that the running callback or step scheduled or woke `target`; a later one replaces it."""
        if self._running:
            self._keep_origin(target, self._running[-1][0], _now())

    def _begin_arrow_in_thread(self, target: object) -> None:
        """The same for a post from another thread: it comes from the job that has just ended there, if any."""
        track = self._threads.get(threading.get_ident())
        if track is not None and track in self._job_ended:
            self._keep_origin(target, track, self._job_ended[track])

    def _keep_origin(self, target: object, track: int, at_ns: int) -> None:
        """Remember where an arrow to `target` begins; the oldest are forgotten. Thread: any."""
        while len(self._origins) >= WAITING_ARROWS:  # more than one, if several threads came at once
            with suppress(LookupError, RuntimeError, StopIteration):  # another thread changed it first
                del self._origins[next(iter(self._origins))]
        self._origins[id(target)] = (target, track, at_ns)

    def _end_arrow(self, target: object, name: str, track: int, at_ns: int) -> None:
        origin = self._origins.pop(id(target), None)
        if origin is not None:
            self._ring.add(Arrow(name, origin[1], origin[2], track, at_ns))
