"""The writer: records to a file in the Trace Event Format (JSON object form).

Source: "Trace Event Format", Google, the document that Perfetto and chrome://tracing refer to. The writer uses complete
events (ph X), instants (i), flows (s and f, bound to the enclosing slice by bp "e") and metadata (M). Times are
microseconds since the first record, with decimals that keep the nanoseconds.
"""

import errno
import gzip
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, TypeAlias

from loopcore_plugins.trace.anchors import Anchors
from loopcore_plugins.trace.records import LOOP_TRACK, Arrow, Mark, Record, Slice, Step

Event: TypeAlias = dict[str, Any]


def write_trace(
    path: Path,
    records: list[Record],
    *,
    title: str,
    threads: Mapping[int, int | str],
    dropped: int,
    process: int | None = None,
) -> Path:
    """Write `records` to `path`, whole or not at all. Raises OSError.

    `threads` maps tracks to the identifiers or names of threads; `process` is the number of the process, by default
    this one's.
    An existing file at `path` is replaced; if it is a link, the link itself and not its target.
    """
    with replacement(path) as unfinished, _open(unfinished, compressed=path.suffix == ".gz") as file:
        file.write('{"displayTimeUnit":"ns","otherData":')
        json.dump({"source": "loopcore", "dropped_records": dropped}, file)
        file.write(',"traceEvents":[\n')
        for position, event in enumerate(trace_events(records, title, threads, process)):
            file.write(",\n" if position else "")
            file.write(json.dumps(event, separators=(",", ":")))
        file.write("\n]}\n")
    return path


@contextmanager
def replacement(path: Path) -> Iterator[Path]:
    """Yield the name of a file to create with mode x. It replaces `path`, or is removed after an exception.

    Raises OSError; FileExistsError for what is not a file in a folder: pipes, devices, /dev/stdout.
    """
    if (path.exists() and not path.is_file()) or _is_stream(path):
        raise FileExistsError(errno.EEXIST, "it is not a file, and is not replaced", str(path))
    # Others may be able to create files in the folder: a predictable name could be a link of theirs.
    unfinished = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        yield unfinished
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _is_stream(path: Path) -> bool:
    """Return whether `path` leads to a descriptor of the process, as /dev/stdout and /dev/fd/1 do on Linux."""
    named = os.path.join(path.parent, os.readlink(path)) if path.is_symlink() else path
    return os.path.realpath(os.path.dirname(named)).startswith("/proc/")


def trace_events(
    records: list[Record], title: str, threads: Mapping[int, int | str], process: int | None = None
) -> Iterator[Event]:
    """Yield the events of `records`: names of tracks first, then everything in order of time."""
    process = os.getpid() if process is None else process
    slices = [each for record in records for each in _slices(record)]
    marks = [record for record in records if isinstance(record, Mark)]
    anchors = Anchors((each.track, each.begin_ns, each.end_ns) for each in slices)
    arrows = [record for record in records if isinstance(record, Arrow) and _is_bound(record, anchors)]
    names = {LOOP_TRACK: title, **{track: f"thread {thread}" for track, thread in threads.items()}}
    names |= {record.track: f"{record.task} ({record.coroutine})" for record in records if isinstance(record, Step)}
    used = {LOOP_TRACK, *(each.track for each in slices), *(mark.track for mark in marks)}
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": f"loopcore {process}"}}
    for track in sorted(used):
        name = names.get(track, "a task that ended before its first step")
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": track, "args": {"sort_index": track}}
    timed = [*map(_of_slice, slices), *map(_of_mark, marks)]
    for number, arrow in enumerate(arrows, 1):
        timed += _of_arrow(number, arrow)
    # Of events with the same begin the longer comes first: readers rely on this to nest them.
    timed.sort(key=itemgetter(0, 1))
    start = timed[0][0] if timed else 0
    for at_ns, _, event in timed:
        yield {**event, "ts": (at_ns - start) / 1000, "pid": process}


def _slices(record: Record) -> list[Slice]:
    if isinstance(record, Slice):
        return [record]
    if isinstance(record, Step):
        details: dict[str, object] = {"task": record.task, "outcome": record.outcome}
        return [
            Slice(track, record.coroutine, "task", record.begin_ns, record.end_ns, details)
            for track in (LOOP_TRACK, record.track)
        ]
    return []


def _is_bound(arrow: Arrow, anchors: Anchors) -> bool:
    """Tell whether the slices at both ends still exist; those of an old arrow may have been dropped."""
    return anchors.holds(arrow.from_track, arrow.from_ns) and anchors.holds(arrow.to_track, arrow.to_ns)


def _of_slice(each: Slice) -> tuple[int, int, Event]:
    took = each.end_ns - each.begin_ns
    event: Event = {"ph": "X", "name": each.name, "cat": each.category, "tid": each.track, "dur": took / 1000}
    if each.details:
        event["args"] = each.details
    return each.begin_ns, -took, event


def _of_mark(mark: Mark) -> tuple[int, int, Event]:
    event: Event = {"ph": "i", "s": "t", "name": mark.name, "cat": mark.category, "tid": mark.track}
    if mark.details:
        event["args"] = mark.details
    return mark.at_ns, 1, event


def _of_arrow(number: int, arrow: Arrow) -> list[tuple[int, int, Event]]:
    event: Event = {"name": arrow.name, "cat": "flow", "id": number}
    return [
        (arrow.from_ns, 1, {**event, "ph": "s", "tid": arrow.from_track}),
        (arrow.to_ns, 2, {**event, "ph": "f", "bp": "e", "tid": arrow.to_track}),
    ]


def _open(path: Path, compressed: bool) -> IO[str]:
    """Return a new file. Raises FileExistsError if the name exists, even as a dangling link: open(2), O_EXCL."""
    if compressed:
        return gzip.open(path, "xt", encoding="utf-8", compresslevel=3)
    return path.open("x", encoding="utf-8")
