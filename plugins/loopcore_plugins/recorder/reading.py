"""Reading: a dump, or the mapped file of a process that was killed, as events with absolute times.

A file may be cut off or damaged: a process dies in the middle of a record. Everything that can be read is returned, and
`Recording.problems` says what could not. Times are nanoseconds of CLOCK_MONOTONIC of the recorded machine.
"""

import json
import os
import re
import stat
import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from loopcore.errors import UsageError
from loopcore.text import printable
from loopcore_plugins.recorder.layout import HEADER, LONGEST, MAGIC, OTHER_LABEL, RECORD, VERSION, Kind, Word

_KINDS: Final = [Kind(number) if number in set(Kind) else None for number in range(256)]
_WORDS: Final = struct.Struct(f"<{len(Word)}Q")
_LIBRARY: Final = re.compile(
    r"<frozen|python3\.\d+t?[/\\](?!site-packages|dist-packages)|[/\\](loopcore|loopcore_plugins)[/\\]"
)
"""Files of the standard library and of loopcore, wherever the recorded process had them."""
_CLOSE: Final = 10_000_000
"""Nanoseconds by which the two clocks of a tick may differ; a larger difference in the last one means a torn record."""
_LATEST: Final = (1 << 63) - 1
"""The latest time, of any clock; Python could not show much later ones."""
_DEEPEST: Final = 20
"""The deepest values in the facts; deeper ones would exhaust Python's stack where they are shown."""
_LONGEST_LINE: Final = 9
"""The most digits of a line number."""


class Label(NamedTuple):
    """A name with its place; `file` is empty if it has none."""

    name: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{os.path.basename(self.file)}:{self.line}" if self.line else os.path.basename(self.file)
        return printable(f"{self.name} ({place})" if place else self.name)


def own_code(stack: Sequence[Label]) -> Label | None:
    """Return the innermost place outside the standard library and loopcore, else the innermost of all."""
    return next((place for place in reversed(stack) if not _LIBRARY.search(place.file)), stack[-1] if stack else None)


UNKNOWN: Final = Label("?")
OTHERS: Final = Label("a name for which there was no room")


class Event(NamedTuple):
    """A record, with its time."""

    kind: Kind
    at: int
    argument: int
    label: int
    who: int


class Holder(NamedTuple):
    """A thread that held the GIL during a stall, or computed."""

    thread: str
    place: Label | None

    def __str__(self) -> str:
        return f"{self.thread} in {self.place}" if self.place else self.thread


class Stall(NamedTuple):
    """What the watchdog saw of a stall, see `watchdog.stall.Stall`."""

    begin: int
    end: int
    cause: str
    cpu_ns: int
    stack: tuple[Label, ...]
    holder: Holder | None
    request: dict[str, Any] | None


class Busy(NamedTuple):
    """A time in which another thread computed, see `busy`."""

    begin: int
    end: int
    cpu_ns: int
    kept_gil: bool
    thread: Holder


@dataclass
class Recording:
    """What a file holds. `facts` is empty for a mapped file, and for a dump without its end."""

    path: Path
    pid: int
    events: list[Event]
    labels: list[Label]
    wall_ns: int
    """What to add to a time to get nanoseconds since the epoch."""
    end: int
    dropped: int
    """Records that were overwritten."""
    facts: dict[str, Any]
    stalls: list[Stall] = field(default_factory=list)
    busy: list[Busy] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    """The names of the tasks that were alive at the end, by identity."""
    stacks: dict[int, list[Label]] = field(default_factory=dict)
    """Where they were suspended, outermost first."""
    problems: list[str] = field(default_factory=list)
    is_dump: bool = False
    """Of a mapped file it is False."""
    is_cut_off: bool = False
    """The file is shorter than its header says."""

    @property
    def begin(self) -> int:
        return self.events[0].at if self.events else self.end

    def label(self, number: int) -> Label:
        """Return a label; UNKNOWN if the file has no such."""
        if number == OTHER_LABEL:
            return OTHERS
        return self.labels[number - 1] if 0 < number <= len(self.labels) else UNKNOWN


class _Raw(NamedTuple):
    kind: Kind
    argument: int
    label: int
    steps: int
    who: int


def read(path: Path) -> Recording:
    """Return what is in a dump or a mapped file. Raises UsageError if it is neither, OSError."""
    if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe may never end
        raise UsageError(f"{path} is not a regular file; give a file that `loopcore dump` or the plugin recorder wrote")
    content = path.read_bytes()
    if len(content) < HEADER or int.from_bytes(content[:8], "little") != MAGIC:
        raise UsageError(f"{path} is not a recording; give a file that `loopcore dump` or the plugin recorder wrote")
    header = dict(zip(Word, _WORDS.unpack_from(content), strict=True))
    if header[Word.VERSION] != VERSION:
        raise UsageError(
            f"{path} has the layout {header[Word.VERSION]}, this loopcore reads {VERSION}; "
            "read it with the loopcore that wrote it"
        )
    capacity = header[Word.CAPACITY]
    if capacity == 0 or capacity & (capacity - 1) or HEADER + capacity * RECORD > 1 << 40:
        raise UsageError(f"{path} has a damaged header, so it cannot be read; take another dump")
    problems: list[str] = []
    facts = _facts(content, header, problems)
    is_dump = header[Word.FACTS] > 0
    records = _records(content, capacity, header[Word.WRITTEN], is_dump, problems)
    stalls = _several(_stall, facts.get("stalls"))
    events, end = _timed(records, [stall.end for stall in stalls], problems)
    at = facts.get("at_ns")
    recording = Recording(
        path=path,
        pid=header[Word.PID],
        events=events,
        labels=_labels(content, header, problems),
        wall_ns=header[Word.WALL_NS] - header[Word.MONOTONIC_NS],
        end=max(end, at) if isinstance(at, int) and at <= _LATEST else end,
        dropped=max(header[Word.WRITTEN] - capacity, 0),
        facts=facts,
        stalls=stalls,
        busy=_several(_busy, facts.get("busy")),
        names=dict(_several(lambda task: (int(task["who"]), str(task["name"])), facts.get("tasks"))),
        stacks=dict(_several(lambda task: (int(task["who"]), [*map(_place, task["stack"])]), facts.get("tasks"))),
        problems=problems,
        is_dump=is_dump,
        is_cut_off=len(content) < header[Word.LABELS_AT] + header[Word.LABELS_SIZE] + header[Word.FACTS],
    )
    strange = sum(event.label != OTHER_LABEL and event.label > len(recording.labels) for event in events if _has(event))
    if strange:
        problems.append(f"{strange} records have a label that the file does not have; they are shown as '?'")
    if not events:
        problems.append("it has no readable record")
    return recording


def _has(event: Event) -> bool:
    return event.kind not in (Kind.TICK, Kind.RECEIVED_BY, Kind.SENT_BY)  # their label is a number


def _several(make: Callable[[Any], Any], values: object) -> list[Any]:
    """Return what `make` returns for each value, without those it cannot be made of."""
    made = []
    for value in values if isinstance(values, list) else []:
        try:
            made.append(make(value))
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            pass  # a damaged fact is left out; the records can be read without it
    return made


def _stall(each: dict[str, Any]) -> Stall:
    end = _time(each["ended_ns"])
    return Stall(
        begin=_time(end - int(each["seconds"] * 1e9)),
        end=end,
        cause=str(each["cause"]),
        cpu_ns=_time(each["cpu_seconds"] * 1e9),
        stack=tuple(_place(frame) for frame in each.get("stack") or ()),
        holder=_holder(each["holder"]) if each.get("holder") else None,
        request=each["request"] if isinstance(each.get("request"), dict) else None,
    )


def _busy(each: dict[str, Any]) -> Busy:
    begin, end, cpu = _time(each["began_ns"]), _time(each["ended_ns"]), _time(each["cpu_seconds"] * 1e9)
    return Busy(begin, end, cpu, each.get("kept_gil") is True, _holder(each))


def _time(value: Any) -> int:
    """Return a time or duration. Raises ValueError for one that cannot be."""
    time = int(value)
    if not 0 <= time <= _LATEST:
        raise ValueError("an impossible time")
    return time


def _holder(each: dict[str, Any]) -> Holder:
    return Holder(str(each["thread"]), _place(each["place"]) if each.get("place") else None)


def _place(frame: Sequence[Any]) -> Label:
    function, file, line = frame
    return Label(str(function), str(file), int(line))


def _facts(content: bytes, header: dict[Word, int], problems: list[str]) -> dict[str, Any]:
    size = header[Word.FACTS]
    if not size:
        return {}
    begin = header[Word.LABELS_AT] + header[Word.LABELS_SIZE]
    for start in (begin, header[Word.LABELS_AT] + header[Word.LABELS_USED]):
        try:
            facts = json.loads(content[start : start + size])
        except (ValueError, RecursionError):
            continue
        if isinstance(facts, dict) and _is_shallow(facts):
            return facts
    problems.append("its end is missing or damaged: no stacks of tasks, no stalls")
    return {}


def _is_shallow(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
        ]
    return not level


def _labels(content: bytes, header: dict[Word, int], problems: list[str]) -> list[Label]:
    at = header[Word.LABELS_AT]
    end = at + min(header[Word.LABELS_USED], header[Word.LABELS_SIZE])
    labels: list[Label] = []
    while at + 4 <= end:
        size = int.from_bytes(content[at : at + 4], "little")
        if at + 4 + size > min(end, len(content)):
            problems.append(f"the names end after number {len(labels)}; the others are shown as '?'")
            break
        name, file, line = [*content[at + 4 : at + 4 + size].decode(errors="replace").split("\n"), "", ""][:3]
        has_line = line.isascii() and line.isdecimal() and len(line) <= _LONGEST_LINE
        labels.append(Label(name or "?", file, int(line) if has_line else 0))
        at += 4 + size
    return labels


def _records(content: bytes, capacity: int, written: int, is_dump: bool, problems: list[str]) -> list[_Raw]:
    """Return the records, oldest first."""
    held = max(min(capacity, (len(content) - HEADER) // RECORD), 0)
    if held < min(written, capacity):
        problems.append(f"the file is cut off: {held} of {min(written, capacity)} records are in it")
    # The process may have been killed while it replaced the oldest record of a full ring.
    first = max(written - capacity, 0) + (written >= capacity and not is_dump)
    records, strange = [], 0
    newest = written - 1
    for number in sorted(newest - (newest - place) % capacity for place in range(held)):
        if number < first:
            continue
        place = number % capacity
        word, who = struct.unpack_from("<QQ", content, HEADER + place * RECORD)
        kind = _KINDS[word & 0xFF]
        if kind is None:
            strange += 1
        else:
            records.append(_Raw(kind, word >> 8 & 0xFF, word >> 16 & 0xFFFF, word >> 32, who))
    if strange:
        problems.append(f"{strange} records are of an unknown kind, or half written; they are left out")
    return records


def _timed(records: list[_Raw], stall_ends: list[int], problems: list[str]) -> tuple[list[Event], int]:
    """Return the records with their times, and the latest time."""
    records = _sound(records, problems)
    ticks = [number for number, record in enumerate(records) if record.kind is Kind.TICK]
    if not ticks:
        if records:
            problems.append("it has no tick, so no time is known")
        return [], 0
    scale = _scale(records, ticks, problems)
    first = records[ticks[0]]
    base = max(first.who - int(min(first.steps, LONGEST) * scale), 0)  # of the tick before the oldest record
    events: list[Event] = []
    clipped, stall_ends = 0, sorted(stall_ends)
    at = base if first.steps < LONGEST else first.who
    for begin, tick in zip([-1, *ticks], [*ticks, None], strict=True):
        part = records[begin + 1 : tick]
        after = None if tick is None else records[tick]
        step = scale
        if after is not None and begin >= 0 and 0 < after.steps < LONGEST:
            step = (after.who - base) / after.steps
        until = None if after is None else after.who
        for record in part:
            exact = min(base + int(record.steps * step), _LATEST)
            if record.steps == LONGEST:
                clipped += 1
                exact = _unclip(exact, until, part, stall_ends)
            at = max(at, exact if until is None else min(exact, until))
            events.append(Event(record.kind, at, record.argument, record.label, record.who))
        if after is not None:
            at = base = after.who
            events.append(Event(Kind.TICK, at, after.argument, after.label, after.who))
    if clipped:
        problems.append(f"the times of {clipped} records after a long step or wait are estimates: see `LONGEST`")
    return events, at


def _sound(records: list[_Raw], problems: list[str]) -> list[_Raw]:
    """Leave out ticks whose time runs backwards, and a last one that is half written."""
    sound: list[_Raw] = []
    latest, torn = 0, 0
    for record in records:
        if record.kind is Kind.TICK:
            if not latest <= record.who <= _LATEST:
                torn += 1
                continue
            latest = record.who
        sound.append(record)
    ticks = [number for number, record in enumerate(sound) if record.kind is Kind.TICK]
    if len(ticks) > 2 and sound[ticks[-1]].steps < LONGEST:
        scale = _scale(sound, ticks[:-1], [])
        expected = sound[ticks[-2]].who + sound[ticks[-1]].steps * scale
        if abs(sound[ticks[-1]].who - expected) > max(_CLOSE, sound[ticks[-1]].steps * scale):
            del sound[ticks[-1]]
            torn += 1
    if torn:
        problems.append(f"{torn} ticks have an impossible time; they are left out")
    return sound


def _scale(records: list[_Raw], ticks: list[int], problems: list[str]) -> float:
    """Return the nanoseconds of a step."""
    elapsed = steps = 0
    for earlier, later in pairwise(ticks):
        if records[later].steps < LONGEST:
            elapsed += records[later].who - records[earlier].who
            steps += records[later].steps
    if steps and elapsed:
        return elapsed / steps
    problems.append("it has too few ticks to learn the clock's step; times within a tick assume 1 ns")
    return 1.0


def _unclip(least: int, until: int | None, part: list[_Raw], stall_ends: list[int]) -> int:
    """Return an estimate for a time that did not fit: `least` is its lower bound, `until` the next tick's."""
    if until is None:
        return least
    position = bisect_right(stall_ends, least)
    if position < len(stall_ends) and stall_ends[position] <= until:
        return stall_ends[position]
    # A wait that only looked cannot have been long, so the step before it was.
    may_block = any(record.kind is Kind.WAIT and record.argument for record in part)
    return least if may_block else until
