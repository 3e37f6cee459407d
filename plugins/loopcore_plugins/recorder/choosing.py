"""Choosing: which steps were late, and the causes that they have in common.

Late is what a step ran for, waited for its turn, or waited for a lock, an executor or something that another task did.
Waiting for a client, a timer or the next item of a queue is not: most tasks do that most of the time.
"""

import heapq
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from loopcore.errors import UsageError
from loopcore.text import did_you_mean, printable
from loopcore_plugins.recorder.causes import Part, Why
from loopcore_plugins.recorder.chains import Chains
from loopcore_plugins.recorder.model import Model, Step, Task

LATE: Final = frozenset(Why) - {
    Why.IO,
    Why.SLEEP,
    Why.QUEUE,
    Why.EVENT,
    Why.END,
    Why.THREAD,
    Why.UNKNOWN,
    Why.WAIT,
    Why.STILL,
}
"""What counts as late; the rest is how long something was idle."""
CANDIDATES: Final = 200
"""The most ticks of which something is explained, to find different causes."""
OF_A_TICK: Final = 3
LEAST: Final = 100_000
"""Nanoseconds of lateness that are worth an explanation."""
MAIN: Final = 3
"""A path goes on into a part that has at least 1/MAIN of the time of the part above it."""
SMALL: Final = 100
"""An item is worth an answer if it is at least 1/SMALL as late as the latest one, and a part is worth a line if it has
at least 1/SMALL of the whole."""
_NAMED: Final = 20
_DAY: Final = 86_400 * 10**9
_CLOCK: Final = 1_000_000
"""Nanoseconds of the last digit of the times that people read and give."""


@dataclass(slots=True, eq=False)
class Item:
    """Something that was late, explained: `parts` add up to `end - begin`."""

    name: str
    begin: int
    end: int
    parts: list[Part]
    step: Step
    late: int = 0
    others: int = 0
    """How many others were late for the same cause."""

    @property
    def path(self) -> list[Part]:
        """The main part of the time, the main part of that, and so on: the last one is the cause."""
        path: list[Part] = []
        parts, above = [part for part in self.parts if part.why in LATE] or self.parts, 0
        while parts:
            main = next((part for part in parts if part.why is not Why.WAIT), parts[0])
            if main.ns * MAIN < above:
                break
            path.append(main)
            if main.why in (Why.GIL, Why.RUN_QUEUE, Why.POOL):
                break
            parts, above = main.parts, main.ns
        return path

    @property
    def culprit(self) -> Step | None:
        """The step that took at least half of the time that the path ends with; None if it was many, or no step."""
        part = next((part for part in reversed(self.path) if part.step is not None), None)
        if part is None or part.step is None or (part.step.end - part.step.begin) * 2 < part.ns:
            return None
        return part.step

    @property
    def evidence(self) -> tuple[object, ...] | None:
        """What all items have in common that were late for the same cause; None if only the culprit is known."""
        path = self.path
        last = path[-1]
        if last.why in (Why.RUN_QUEUE, Why.POOL, Why.COLLECTOR, Why.SUSPENDED):
            return (last.why,)
        if last.why is Why.GIL:
            return (last.why, last.who)
        if last.why is Why.CPU and last.label is not None:
            return (last.why, last.label.name, last.label.file)  # the line is only where it was seen
        if last.why is Why.BLOCKED and last.label is not None:
            return (last.why, last.label)
        lock = next((part for part in path if part.why in (Why.LOCK, Why.TASK)), None)
        if lock is not None and not any(part.why in (Why.RUNNING, Why.TURN) for part in path):
            return (lock.why, lock.label or self.step.label)
        if self.culprit is not None:
            return None
        named = next((part for part in reversed(path) if part.why in (Why.RUNNING, Why.BEHIND, Why.EXECUTOR)), last)
        return (named.label or named.why,)


def slowest(chains: Chains, count: int) -> list[Item]:
    """Return the `count` causes that made something late longest, each with the latest of its victims.

    If a stall was the reason for the dump, it is the first.
    """
    scored = [(_score(chains, step), step) for step in chains.model.steps]
    items = _candidates(chains, [each for each in scored if each[0] >= LEAST])
    first = _of_last_stall(chains, items) if chains.model.recording.facts.get("reason") == "stall" else []
    return _by_cause([*items, *(item for item in first if item not in items)], count, first)


def at_time(chains: Chains, moment: int, count: int) -> list[Item]:
    """Return the latest of the steps that ran, or waited to run, at a time, or began to in the millisecond after."""
    found = []
    for step in chains.model.steps:
        begin = step.previous.end if step.previous is not None else chains.origin_of(step)
        if begin < moment + _CLOCK and moment <= step.end > begin:
            found.append((_score(chains, step), step))
    return _by_cause(_candidates(chains, found), count)


def _of_last_stall(chains: Chains, items: list[Item]) -> list[Item]:
    """Return the items that the last stall made late; if there are none, a new one of its longest step."""
    if not chains.model.stalls:
        return []
    begin, end = chains.model.stalls[-1].begin, chains.model.stalls[-1].end
    spans = chains.model.between(begin, end)
    longest = max(spans, key=lambda span: min(span.end, end) - max(span.begin, begin), default=None)
    if isinstance(longest, Step):
        found = [item for item in items if item.culprit is longest]
        return found or [_run(chains, longest)]
    kept = [item for item in items if item.step.wait is longest is not None and item.begin < longest.end]
    return [max(kept, key=lambda item: item.late)] if kept else []


def _candidates(chains: Chains, scored: list[tuple[int, Step]]) -> list[Item]:
    """Return the latest steps, explained; only some of each tick, because a stall makes many of them late."""
    scored.sort(key=lambda each: -each[0])
    ticks: dict[int, list[Item]] = {}
    for late, step in scored:
        items = ticks.setdefault(id(step.wait), [])
        if len(items) >= OF_A_TICK:
            items[0].others += late * 2 >= items[0].late
        elif len(ticks) <= CANDIDATES:
            items.append(_item(chains, step, late))
    return [item for items in ticks.values() for item in items]


def lives(chains: Chains, wish: str, count: int) -> list[Item]:
    """Return the whole lives of the tasks that have this name, coroutine or identity, the latest first.

    Raises UsageError if there are none.
    """
    tasks = [task for task in chains.model.tasks if task.steps]
    found = [task for task in tasks if wish in (task.name, task.label.name, f"{task.who:#x}")]
    if not found:
        names = sorted({name for task in tasks for name in (task.name, task.label.name) if "#" not in name})
        known = ", ".join(map(printable, names[:_NAMED])) + (", ..." if len(names) > _NAMED else "")
        raise UsageError(
            f"no task of the recording is called {wish!r}{did_you_mean(wish, names)}; "
            + (f"there are: {known}" if names else "it has no tasks that have run")
        )
    scored = [(sum(_score(chains, step) for step in task.steps), number) for number, task in enumerate(found)]
    return [_life(chains, found[number], late, len(found) - 1) for late, number in heapq.nlargest(count, scored)]


def moment_of(model: Model, wish: str) -> int:
    """Return the time that `wish` means: seconds before the end, or a local time as HH:MM:SS. Raises UsageError."""
    recording = model.recording
    try:
        if ":" not in wish:
            moment = recording.end - int(float(wish) * 1e9)
        else:
            clock, _, fraction = wish.partition(".")
            of_day = datetime.strptime(clock, "%H:%M:%S")
            day = time.localtime((recording.end + recording.wall_ns) // 10**9)
            second = int(time.mktime((*day[:3], of_day.hour, of_day.minute, of_day.second, *day[6:8], -1)))
            moment = second * 10**9 + int(f"{fraction:0<9.9}") - recording.wall_ns
            if moment > recording.end:
                moment -= _DAY  # of the day before
    except (ValueError, OverflowError):
        raise UsageError(
            f"{wish!r} is not a time; give seconds before the end, or HH:MM:SS from 00:00:00 to 23:59:59"
        ) from None
    if not recording.begin < moment + _CLOCK <= recording.end + _CLOCK:
        since, until = clock_of(model, recording.begin), clock_of(model, recording.end)
        raise UsageError(f"{wish!r} is not in the recording, which is from {since} to {until}")
    return moment


def clock_of(model: Model, at: int, digits: int = 3) -> str:
    """Return a time of the recording as a local time."""
    seconds, rest = divmod(at + model.recording.wall_ns, 10**9)
    return time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{rest:09}"[: digits + 1]


def _by_cause(items: list[Item], count: int, first: Sequence[Item] = ()) -> list[Item]:
    """Return an item for each cause, the latest first: a task that was kept waiting, if there is one.

    The causes of the items `first` come before all others.
    """
    known: dict[Step | None, tuple[object, ...]] = {}
    for item in items:
        if item.evidence is not None:
            known.setdefault(item.culprit, item.evidence)
    groups: dict[tuple[object, ...], list[Item]] = {}
    for item in items:
        groups.setdefault(item.evidence or known.get(item.culprit) or (item.culprit,), []).append(item)
    chosen = []
    for group in groups.values():
        about = [item for item in group if item in first]
        latest = max(item.late for item in about or group)
        late = [item for item in about or group if item.late * 2 >= latest]
        best = max(late, key=lambda item: (item.step.task is not None, item.path[0].why is not Why.RUNNING, item.late))
        best.others = sum(item.others + 1 for item in group) - 1
        chosen.append((bool(about), best))
    chosen.sort(key=lambda each: (not each[0], -each[1].late))
    latest = max((item.late for _, item in chosen), default=0)
    return [item for is_first, item in chosen[:count] if is_first or item.late * SMALL >= latest]


def _item(chains: Chains, step: Step, late: int) -> Item:
    begin, parts = chains.leg(step)
    return Item(name_of(step), begin, step.end, parts, step, late)


def _run(chains: Chains, step: Step) -> Item:
    return Item(name_of(step), step.begin, step.end, chains.run(step), step, step.end - step.begin)


def _life(chains: Chains, task: Task, late: int, others: int) -> Item:
    begin, end, parts = chains.life(task)
    return Item(name_of(task.steps[-1]), begin, end, parts, task.steps[-1], late, others)


def name_of(step: Step) -> str:
    """Return the name of a step for people."""
    if step.task is None:
        return str(step.label)
    if step.task.name.startswith(f"{step.label.name}#"):
        return str(step.label._replace(name=step.task.name))
    return f"{printable(step.task.name)}, {step.label}"


def _score(chains: Chains, step: Step) -> int:
    """Return for how long a step was late, in ns."""
    ready, before = min(chains.ready(step)[0], step.begin), step.previous
    if before is None:
        return step.end - min(chains.origin_of(step), ready)
    suspended = min(before.end, step.begin)
    ready = max(ready, suspended)
    why, job = chains.waited_for(step) if ready > suspended else (Why.UNKNOWN, None)
    if why is Why.EXECUTOR and job is not None:
        suspended = max(job.submitted, suspended)
    return step.end - min(suspended if why in LATE else ready, ready)
