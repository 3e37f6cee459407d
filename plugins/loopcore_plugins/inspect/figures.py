"""Figures: the difference between two samples, as `top` and the page show it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import loopcore
from loopcore_plugins.inspect.protocol import Message

_BUCKETS = len(loopcore.Histogram.bounds())
_EMPTY = loopcore.HistogramSnapshot(0, 0, 0, 0, (0,) * _BUCKETS)


class Row(NamedTuple):
    """A coroutine, or a kind of callback."""

    kind: str
    """task or callback."""
    name: str
    tasks: int
    """Live tasks of that coroutine."""
    rate: float
    """Steps or calls a second."""
    busy: float
    """The share of time for which they ran, 0.0 to 1.0."""
    mean: float
    """Seconds of a step."""
    longest: float
    """Seconds of the longest step since watching began."""
    place: str
    """The file and line where its code begins."""


class Event(NamedTuple):
    """A stall, or a callback that was slow and is in no stall."""

    when: float
    """When it began, since the epoch."""
    seconds: float
    cause: str
    """A cause of the watchdog's, or slow."""
    place: str
    """File, line and function; empty if not known."""
    task: str
    """The task, else the name of the callback."""
    stall: Message | None


class ThreadShares(NamedTuple):
    """What the loop's thread did: shares of time, 0.0 to 1.0. None means not known on this system, or not yet."""

    cpu: float | None
    """It ran on a processor."""
    run_queue: float | None
    """It was ready, and the kernel ran another thread."""
    off_cpu: float | None
    """It did neither although the loop was not in its wait: at least that long it was in blocking calls, or waited
    for a lock or the GIL."""
    gil: float | None
    """Estimated: the seconds for which a thread that wakes waits until other threads release the GIL; the mean."""
    gil_longest: float
    """The same: the longest since watching began."""


_UNKNOWN = ThreadShares(None, None, None, None, 0.0)


@dataclass(slots=True)
class Frame:
    """The time between two samples. Durations are in seconds, rates per second; None means not known (yet)."""

    seconds: float
    now: float
    """When the later sample was taken, since the epoch."""
    state: str
    """stalled, busy, waiting or stopped."""
    utilization: float | None
    cpu: float
    """CPU seconds of the whole process a second."""
    rates: dict[str, float]
    """Increase of each counter, by its name."""
    counters: dict[str, int]
    ticks: loopcore.HistogramSnapshot
    lateness: loopcore.HistogramSnapshot
    queue_times: dict[str, loopcore.HistogramSnapshot]
    """By source."""
    queue_time: loopcore.HistogramSnapshot
    """Of all sources."""
    rows: list[Row]
    phases: dict[str, float]
    """The share of time, by phase."""
    slow: list[Message]
    stall: Message | None
    """The current one."""
    stalls: Message = field(default_factory=dict)
    sockets: int = 0
    threads: int = 0
    tasks: int = 0
    """Live tasks, of any class."""
    thread: ThreadShares = _UNKNOWN

    @property
    def delay(self) -> float | None:
        """The 99th percentile of the queue delay, in seconds."""
        return self.queue_time.percentile(99) / 1e9 if self.queue_time.count else None

    @property
    def events(self) -> list[Event]:
        """The stalls and the slow callbacks, the newest first."""
        return sorted(_events(self), key=lambda event: -event.when)

    def without_rows(self) -> "Frame":
        """Return the frame for a history."""
        return replace(self, rows=[], slow=[], stalls={})


def compare(earlier: Message, later: Message) -> Frame:
    """Return the frame between two samples of one connection."""
    seconds = max(later["monotonic_ns"] - earlier["monotonic_ns"], 1) / 1e9
    before, after = earlier["counters"], later["counters"]
    meter, old = later["meter"], earlier["meter"]
    if meter is None or old is None or meter["active_ns"] < old["active_ns"]:  # the meter was not on yet
        meter = old = None
    queue_times = _between(old, meter, "queue_time")
    stalls = later["stalls"]
    return Frame(
        seconds=seconds,
        now=later["now"],
        state=_state(later),
        utilization=_utilization(old, meter),
        cpu=(later["cpu_seconds"] - earlier["cpu_seconds"]) / seconds,
        rates={name: (after[name] - before[name]) / seconds for name in after},
        counters=after,
        ticks=_since(old and old["tick"], meter and meter["tick"]),
        lateness=_since(old and old["lateness"], meter and meter["lateness"]),
        queue_times=queue_times,
        queue_time=_sum(list(queue_times.values())),
        rows=_rows(earlier, later, seconds),
        phases=_phases(earlier["phases"], later["phases"]),
        slow=later["slow"]["last"] if later["slow"] else [],
        stall=stalls["present"],
        stalls=stalls,
        sockets=later["sockets"],
        threads=later["threads"],
        tasks=sum(later["tasks"].values()),
        thread=_thread(earlier.get("thread"), later.get("thread"), old, meter, seconds),
    )


def _events(frame: Frame) -> Iterator[Event]:
    stalls = [stall for stall in (frame.stall, *frame.stalls["past"]) if stall is not None]
    for stall in stalls:
        place = "" if stall["place"] is None else "{}:{}, in {}".format(*stall["place"])
        yield Event(stall["when"], stall["seconds"], stall.get("cause", "stall"), place, stall["task"] or "", stall)
    for slow in frame.slow:
        began = slow["when"] - slow["seconds"]
        if not any(began < stall["when"] + stall["seconds"] and stall["when"] < slow["when"] for stall in stalls):
            place = "" if slow["place"] is None else "{}:{}".format(*slow["place"])
            yield Event(began, slow["seconds"], "slow", place, slow["name"], None)


def _state(sample: Message) -> str:
    if not sample["running"]:
        return "stopped"
    if sample["stalls"]["present"] is not None:
        return "stalled"
    return "waiting" if sample["waiting"] else "busy"


def _utilization(old: Message | None, meter: Message | None) -> float | None:
    if old is None or meter is None:
        return None
    active = meter["active_ns"] - old["active_ns"]
    total = active + meter["idle_ns"] - old["idle_ns"]
    return min(max(active / total, 0.0), 1.0) if total > 0 else None


def _thread(
    before: Message | None, after: Message | None, old: Message | None, meter: Message | None, seconds: float
) -> ThreadShares:
    if before is None or after is None or before is after or before["id"] != after["id"]:  # an older loopcore; moved
        return _UNKNOWN

    def share(name: str) -> float | None:
        if before[name] is None or after[name] is None:
            return None
        return float(min(max((after[name] - before[name]) / 1e9 / seconds, 0.0), 1.0))

    cpu, run_queue = share("cpu_ns"), share("run_queue_ns")
    off_cpu = gil = None
    if cpu is not None and old is not None and meter is not None:
        active = (meter["active_ns"] - old["active_ns"]) / 1e9 / seconds
        off_cpu = min(max(active - cpu - (run_queue or 0.0), 0.0), 1.0)
    now, earlier = after["gil"], before["gil"] or {"probes": 0, "ns": 0}
    if now is not None and now["probes"] > earlier["probes"]:
        gil = (now["ns"] - earlier["ns"]) / (now["probes"] - earlier["probes"]) / 1e9
    return ThreadShares(cpu, run_queue, off_cpu, gil, 0.0 if now is None else now["longest_ns"] / 1e9)


def _histogram(values: list[Any] | None) -> loopcore.HistogramSnapshot:
    if values is None:
        return _EMPTY
    count, total, shortest, longest, sparse = values
    buckets = [0] * _BUCKETS
    for number, counted in sparse.items():
        buckets[int(number)] = counted
    return loopcore.HistogramSnapshot(count, total, shortest, longest, tuple(buckets))


def _since(old: list[Any] | None, new: list[Any] | None) -> loopcore.HistogramSnapshot:
    return _histogram(new).since(_histogram(old))


def _between(old: Message | None, meter: Message | None, name: str) -> dict[str, loopcore.HistogramSnapshot]:
    if old is None or meter is None:
        return {}
    differences = {source: _since(old[name].get(source), values) for source, values in meter[name].items()}
    return {source: each for source, each in differences.items() if each.count}


def _sum(histograms: list[loopcore.HistogramSnapshot]) -> loopcore.HistogramSnapshot:
    if not histograms:
        return _EMPTY
    return loopcore.HistogramSnapshot(
        sum(each.count for each in histograms),
        sum(each.sum_ns for each in histograms),
        min(each.min_ns for each in histograms),
        max(each.max_ns for each in histograms),
        tuple(map(sum, zip(*(each.buckets for each in histograms), strict=True))),
    )


def _rows(earlier: Message, later: Message, seconds: float) -> list[Row]:
    """Return a row for every coroutine of a live task, and for the other measured coroutines and callbacks."""
    old = {(kind, name): values for kind, name, *values in earlier["callbacks"] or ()}
    new = {(kind, name): values for kind, name, *values in later["callbacks"] or ()}
    tasks = later["tasks"]
    rows: list[Row] = []
    for kind, name in sorted({*new, *(("task", name) for name in tasks)}):
        count, ran, longest, place = new.get((kind, name), (0, 0, 0, None))
        count_before, ran_before, *_ = old.get((kind, name), (0, 0))
        steps, took = count - count_before, ran - ran_before
        rows.append(
            Row(
                kind=kind,
                name=name,
                tasks=tasks.get(name, 0) if kind == "task" else 0,
                rate=steps / seconds,
                busy=took / 1e9 / seconds,
                mean=took / 1e9 / steps if steps else 0.0,
                longest=longest / 1e9,
                place="" if place is None else f"{place[0]}:{place[1]}",
            )
        )
    return rows


def _phases(old: Message | None, new: Message | None) -> dict[str, float]:
    if old is None or new is None:
        return {}
    passed = {phase: ns - old.get(phase, [0, 0])[0] for phase, (ns, _) in new.items()}
    total = sum(passed.values())  # of the same moments, unlike the time between the samples
    return {phase: ns / total for phase, ns in passed.items()} if total > 0 else {}
