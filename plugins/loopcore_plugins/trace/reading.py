"""Reading a trace: check its format, and sum up the time of its tasks."""

import gzip
import json
import reprlib
import zlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from loopcore.errors import UsageError
from loopcore_plugins.trace.anchors import Anchors

Event: TypeAlias = dict[str, Any]
Track: TypeAlias = tuple[int, int]

ROUNDING = 0.0011
"""Microseconds by which the sum of two written times may be off: they are rounded to nanoseconds."""


class TaskTime(NamedTuple):
    """The time of one task's steps, in microseconds."""

    track: str
    steps: int
    total: float
    longest: float


def load(path: Path) -> list[Event]:
    """Return the events of a trace, compressed or not. Raises OSError, UsageError for a file that is not a trace."""
    raw = path.read_bytes()
    try:
        document = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        events: list[Event] = document["traceEvents"] if isinstance(document, dict) else document
        return [event for event in events if event["ph"]]
    except (ValueError, LookupError, TypeError, EOFError, RecursionError, zlib.error) as exc:
        raise UsageError(f"{path} is not a trace: {type(exc).__name__}: {exc}") from exc


def find_problems(events: Iterable[Event]) -> list[str]:
    """Return the violations of the Trace Event Format, a sentence each; an empty list means a sound trace.

    Checked: every event has the members its kind needs; the slices of a track nest; time never runs backwards on a
    track; an arrow has both ends, in this order, each within a slice.
    """
    events = list(events)
    problems = [problem for event in events for problem in _missing(event)]
    if problems:
        return problems
    slices: dict[Track, list[tuple[float, float, str]]] = defaultdict(list)
    latest: dict[Track, float] = {}
    for event in events:
        if event["ph"] == "M":
            continue
        track = _track(event)
        if event["ts"] < latest.get(track, 0.0):
            problems.append(f"time runs backwards on track {track}, at {event['name']!r}, {event['ts']}")
        latest[track] = event["ts"]
        if event["ph"] == "X":
            slices[track].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    for track, of_track in slices.items():
        problems += _overlaps(track, of_track)
    return problems + _loose_arrows(events, slices)


def slowest_tasks(events: Iterable[Event], count: int = 10) -> list[TaskTime]:
    """Return the `count` tasks with the longest total step time, the slowest first. Malformed events are skipped."""
    events = [event for event in events if not _missing(event)]
    names = {
        _track(each): each["args"].get("name") for each in events if each["ph"] == "M" and each["name"] == "thread_name"
    }
    durations: dict[Track, list[float]] = defaultdict(list)
    loops = {_track(each) for each in events if each["ph"] == "X" and each.get("cat") in ("tick", "phase")}
    for event in events:
        if event["ph"] == "X" and event.get("cat") == "task" and _track(event) not in loops:
            durations[_track(event)].append(event["dur"])
    found = [TaskTime(str(names.get(key)), len(each), sum(each), max(each)) for key, each in durations.items()]
    return sorted(found, key=lambda task: task.total, reverse=True)[:count]


def _track(event: Event) -> Track:
    return (event["pid"], event["tid"])


_NEEDED = {
    "X": ("name", "cat", "ts", "dur", "pid", "tid"),
    "i": ("name", "cat", "ts", "pid", "tid", "s"),
    "s": ("name", "cat", "ts", "pid", "tid", "id"),
    "f": ("name", "cat", "ts", "pid", "tid", "id", "bp"),
    "M": ("name", "pid", "tid", "args"),
}

_TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "cat": (str,),
    "ts": (int, float),
    "dur": (int, float),
    "pid": (int, str),
    "tid": (int, str),
    "id": (int, str),
    "args": (dict,),
}


def _missing(event: Event) -> list[str]:
    needed = _NEEDED.get(event["ph"]) if isinstance(event["ph"], str) else None
    if needed is None:
        return [f"an event of the unknown kind {reprlib.repr(event['ph'])}: {reprlib.repr(event)}"]
    problems = [f"{key!r} is missing" for key in needed if key not in event]
    problems += [
        f"{key!r} is of the wrong type"
        for key, kinds in _TYPES.items()
        if key in event and type(event[key]) not in kinds
    ]
    if not problems:
        problems = [f"{key!r} is negative" for key in ("ts", "dur") if event.get(key, 0) < 0]
    return [f"{problem} in {reprlib.repr(event)}" for problem in problems]


def _overlaps(track: Track, slices: list[tuple[float, float, str]]) -> list[str]:
    problems = []
    open_until: list[tuple[float, str]] = []
    for begin, end, name in sorted(slices, key=lambda each: (each[0], -each[1])):
        while open_until and open_until[-1][0] <= begin + ROUNDING:
            open_until.pop()
        if open_until and end > open_until[-1][0] + ROUNDING:
            problems.append(f"{name!r} at {begin} on track {track} outlives {open_until[-1][1]!r}, in which it began")
        open_until.append((end, name))
    return problems


def _loose_arrows(events: list[Event], slices: dict[Track, list[tuple[float, float, str]]]) -> list[str]:
    problems = []
    ends: dict[tuple[str, int], dict[str, Event]] = defaultdict(dict)
    for event in events:
        if event["ph"] in ("s", "f"):
            ends[event["cat"], event["id"]][event["ph"]] = event
    anchors = Anchors((track, begin, end) for track, each in slices.items() for begin, end, _ in each)
    for (_, number), both in ends.items():
        if set(both) != {"s", "f"}:
            problems.append(f"arrow {number} has only its {'beginning' if 's' in both else 'end'}")
            continue
        if both["s"]["ts"] > both["f"]["ts"]:
            problems.append(f"arrow {number} ends before it begins")
        for event in both.values():
            if not anchors.holds(_track(event), event["ts"], ROUNDING):
                problems.append(f"arrow {number} is bound to nothing at {event['ts']} on track {_track(event)}")
    return problems
