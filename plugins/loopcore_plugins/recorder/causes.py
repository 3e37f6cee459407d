"""Causes: where the time of one step, or of the end of a wait, went.

The records have four kinds of evidence, of different strength. A collection of the garbage collector and a wait for the
GIL after a system call are measured exactly. The clocks of the thread (CPU, run queue) are read now and then, so a part
of the time between two readings is an estimate, which is marked. A stall's cause is the watchdog's judgement. What none
of them explains is unknown.
"""

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from loopcore_plugins.recorder.model import Model, Step, Wait, change
from loopcore_plugins.recorder.reading import Busy, Label, Stall, own_code

SHORTEST: Final = 1_000_000
"""Nanoseconds of a step below which it is not split."""


class Why(StrEnum):
    """What a part of the time was spent on."""

    RUNNING = "running"
    TURN = "turn"
    """Waiting for its turn: it was ready, and the loop did other things."""
    BEHIND = "behind"
    """Of `turn`: another callback or step ran."""
    LOOP = "loop"
    """Of `turn`: the loop's own work."""
    WAIT = "wait"
    """Of `turn`: the loop was in its wait for events."""
    IO = "io"
    SLEEP = "sleep"
    THREAD = "thread"
    LOCK = "lock"
    QUEUE = "queue"
    EVENT = "event"
    """An asyncio.Event, Condition or Barrier."""
    END = "end"
    """The end of another task."""
    TASK = "task"
    """Anything else that another task did."""
    POOL = "executor-queue"
    EXECUTOR = "executor"
    CPU = "cpu"
    GIL = "gil"
    RUN_QUEUE = "run-queue"
    COLLECTOR = "gc"
    BLOCKED = "blocked"
    SUSPENDED = "suspended"
    OFF_CPU = "off-cpu"
    STILL = "still-waiting"
    """The recording ends before the wait does."""
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Part:
    """A part of a time. The parts of a part, if there are any, add up to it."""

    why: Why
    ns: int
    label: Label | None = None
    """The code that it is about."""
    who: str = ""
    """The task or thread that it is about."""
    note: str = ""
    about: bool = False
    """The share is an estimate."""
    count: int = 1
    parts: "list[Part]" = field(default_factory=list)
    step: Step | None = None
    """The step that ran, of several the longest."""

    @property
    def key(self) -> tuple[str, Label | None, str]:
        """What parts have in common that are shown as one."""
        return (self.why, self.label, "" if self.why is Why.BEHIND else self.who)


def merged(parts: list[Part]) -> list[Part]:
    """Return the parts with those of the same kind, code and task joined, the longest first."""
    groups: dict[tuple[str, Label | None, str], list[Part]] = {}
    for part in parts:
        if part.ns:
            groups.setdefault(part.key, []).append(part)
    joined = [_joined(group) for group in groups.values()]
    return sorted(joined, key=lambda part: -part.ns)


def _joined(group: list[Part]) -> Part:
    inner: list[Part] = []
    if any(part.parts for part in group):
        for part in group:
            inner += part.parts or [Part(Why.UNKNOWN, part.ns)]  # too short to tell
    return replace(
        group[0],
        ns=sum(part.ns for part in group),
        who=group[0].who if len({part.who for part in group}) == 1 else "",
        note=next((part.note for part in group if part.note), ""),
        about=any(part.about for part in group),
        count=sum(part.count for part in group),
        parts=merged(inner),
        step=max(
            (part.step for part in group if part.step is not None), key=lambda step: step.end - step.begin, default=None
        ),
    )


def of_step(model: Model, step: Step, begin: int, end: int) -> list[Part]:
    """Return the causes of a step's time from `begin` to `end`; empty if it is too short to tell."""
    if end - begin < SHORTEST:
        return []
    return _scaled(_split(model, step.begin, step.end), end - begin)


def of_loop(model: Model, begin: int, end: int) -> list[Part]:
    """Return the causes of a time between a wait and a step, likewise."""
    return _split(model, begin, end) if end - begin >= SHORTEST else []


def of_wait(model: Model, wait: Wait, begin: int, end: int) -> list[Part]:
    """Return what the thread did in the last part of a wait, from `begin` to `end`, in which something was due."""
    gil = max(min(gil_of(model, wait), end - begin), 0)
    queued = min(run_queue_of(model, wait), end - begin - gil)
    rest = end - begin - gil - queued
    parts = [Part(Why.GIL, gil, who=_holder(model, wait.begin, wait.end)), Part(Why.RUN_QUEUE, queued, about=True)]
    return [part for part in (*parts, Part(Why.WAIT, rest)) if part.ns]


def gil_of(model: Model, wait: Wait) -> int:
    """Return how long the thread waited for the GIL at the end of a wait."""
    stalls = (_overlap(stall.begin, stall.end, wait.begin, wait.end) for stall in model.stalls if stall.cause == "gil")
    return max(wait.gil, *stalls, 0)


def run_queue_of(model: Model, wait: Wait) -> int:
    """Return how long the kernel kept the thread from running at the end of a wait, at least."""
    queued = change(model.run_queue, wait.begin, wait.end)
    if queued is None or queued.ns < SHORTEST:
        return 0
    waits = steps = 0
    for span in model.between(queued.begin, queued.end):
        took = _overlap(span.begin, span.end, queued.begin, queued.end)
        if isinstance(span, Wait):
            waits += 0 if span is wait else took
        else:
            steps += took
    cpu = change(model.cpu, queued.begin, queued.end)
    kept = max(steps - cpu.ns, 0) if cpu is not None else steps
    return min(max(queued.ns - kept - waits, 0), wait.end - wait.begin)


def _split(model: Model, begin: int, end: int) -> list[Part]:
    whole = left = end - begin
    collected = min(sum(_overlap(*each, begin, end) for each in model.collected(begin, end)), left)
    left -= collected
    stall = _stall_in(model, begin, end)
    clocks = _clocks(model, begin, end)
    share = _overlap(stall.begin, stall.end, begin, end) if stall else 0
    cpu, queued, about = clocks or (stall.cpu_ns * share // (stall.end - stall.begin) if stall else 0, 0, True)
    cpu = min(max(cpu - collected, 0), left)
    queued = min(queued, left - cpu)
    left -= cpu + queued
    line = own_code(stall.stack) if stall is not None and stall.cause in ("busy", "blocked") else None
    parts = [
        Part(Why.COLLECTOR, collected),
        Part(Why.CPU, cpu, label=line if stall and stall.cause == "busy" else None, about=about),
        Part(Why.RUN_QUEUE, queued, about=about),
    ]
    # Without a stack the loop itself was in a short system call, again and again, and may have waited for the GIL.
    if (
        stall is not None
        and stall.cause in ("gil", "blocked", "suspended")
        and (stall.stack or stall.cause != "blocked")
    ):
        # The watchdog first sees a stall some time after it began.
        judged = left if share * 2 >= left else share
        left -= judged
        why = {"gil": Why.GIL, "blocked": Why.BLOCKED, "suspended": Why.SUSPENDED}[stall.cause]
        who = _holder(model, begin, end) if why is Why.GIL else ""
        note = ", ".join(filter(None, (_call_of(stall), _meanwhile(model, begin, end)))) if why is Why.BLOCKED else ""
        parts.append(Part(why, judged, label=line, who=who, note=note))
    if left * 50 >= whole or clocks is None:
        busy = _busy_in(model, begin, end)
        if clocks is None:
            parts.append(Part(Why.UNKNOWN, left))
        elif busy is not None and _kept_gil(model, busy):
            parts.append(Part(Why.GIL, left, who=str(busy.thread), about=True))
        else:
            parts.append(Part(Why.OFF_CPU, left, note=_meanwhile(model, begin, end)))
    elif left:
        parts[1].ns += left  # less than the clocks can tell
    return [part for part in parts if part.ns]


def _clocks(model: Model, begin: int, end: int) -> tuple[int, int, bool] | None:
    """Return the CPU time and the time on the run queue, in ns, of a step; and whether they are estimates.

    None: the clocks were not read, or so much else ran between two readings that they do not tell.
    """
    cpu = change(model.cpu, begin, end)
    if cpu is None:
        return None
    whole = end - begin
    busy = cpu.end - cpu.begin
    for span in model.between(cpu.begin, cpu.end):
        if isinstance(span, Wait):
            busy -= _overlap(span.begin, span.end, cpu.begin, cpu.end)
    if whole * 2 < busy:
        return None
    least, most = max(cpu.ns - max(busy - whole, 0), 0), min(cpu.ns, whole)
    estimate = min(max(cpu.ns * whole // max(busy, whole), least), most)
    queued = change(model.run_queue, begin, end)
    waited = 0 if queued is None else min(queued.ns, whole - estimate)
    certain = 0 if queued is None else queued.ns - (queued.end - queued.begin - whole)
    return estimate, waited, (most - least) * 10 > whole or (waited - max(certain, 0)) * 10 > whole


def _stall_in(model: Model, begin: int, end: int) -> Stall | None:
    """Return the stall that covers most of a time or lies mostly in it, if there is one."""
    found = max(model.stalls, key=lambda stall: _overlap(stall.begin, stall.end, begin, end), default=None)
    if found is None:
        return None
    shared = _overlap(found.begin, found.end, begin, end)
    return found if shared > 0 and shared * 2 >= min(found.end - found.begin, end - begin) else None


def _holder(model: Model, begin: int, end: int) -> str:
    stall = max(
        (each for each in model.stalls if each.holder is not None),
        key=lambda each: _overlap(each.begin, each.end, begin, end),
        default=None,
    )
    if stall is not None and _overlap(stall.begin, stall.end, begin, end):
        return str(stall.holder)
    busy = _busy_in(model, begin, end)
    return str(busy.thread) if busy is not None else ""


def _busy_in(model: Model, begin: int, end: int) -> Busy | None:
    """Return the other thread that computed at a time, as far as the watch thread saw."""
    found = max(model.recording.busy, key=lambda each: _overlap(each.begin, each.end, begin, end), default=None)
    return found if found is not None and _overlap(found.begin, found.end, begin, end) else None


def _meanwhile(model: Model, begin: int, end: int) -> str:
    busy = _busy_in(model, begin, end)
    return "" if busy is None else f"meanwhile the thread {busy.thread} computed"


def _kept_gil(model: Model, busy: Busy) -> bool:
    """Return whether a thread that computed kept the GIL: the watch thread had to wait for it, or the loop's."""
    first = bisect_left(model.gil_waits, busy.begin)
    return busy.kept_gil or (first < len(model.gil_waits) and model.gil_waits[first] <= busy.end)


def _call_of(stall: Stall) -> str:
    """Return the call that did not return, if it is not the program's own line."""
    return "" if not stall.stack or stall.stack[-1] == own_code(stall.stack) else str(stall.stack[-1])


def _scaled(parts: list[Part], ns: int) -> list[Part]:
    """Return the parts in proportion, so that they add up to `ns`."""
    whole = sum(part.ns for part in parts)
    if whole == ns or not parts:
        return parts
    scaled = [replace(part, ns=part.ns * ns // whole, about=True) for part in parts]
    scaled[0].ns += ns - sum(part.ns for part in scaled)
    return [part for part in scaled if part.ns]


def _overlap(begin: int, end: int, other_begin: int, other_end: int) -> int:
    return max(min(end, other_end) - max(begin, other_begin), 0)
