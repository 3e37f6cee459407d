"""A trace of a simulation for Perfetto and chrome://tracing: a track for each host, arrows from send to arrival.

Source: "Trace Event Format", Google. Its arrows begin and end in slices, so each event is a slice of one microsecond.
Simulated time stands still while code runs, so many events have the same time: each is drawn at least a microsecond
after the one before it, which keeps their order. The exact time is an argument of the slice.

The trace plugin has a writer of the same format, for its own records; core does not import plugins.
"""

import json
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final, TypeAlias

from loopcore.sim.log import LogEntry
from loopcore.sim.report.messages import find_messages, hosts_of, label_of

Event: TypeAlias = dict[str, object]
_PROCESS: Final = 1


def write_trace(log: Sequence[LogEntry], path: Path) -> Path:
    """Write the trace of `log` to `path`, a JSON file, and return the path. Raises OSError."""
    document = {"displayTimeUnit": "ns", "otherData": {"source": "loopcore"}, "traceEvents": [*trace_events(log)]}
    path.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
    return path


def trace_events(log: Sequence[LogEntry]) -> Iterator[Event]:
    """Yield the trace of `log`: the names of the tracks, then a slice for each entry and the arrows.

    Times are in microseconds.
    """
    tracks = {host: number for number, host in enumerate(hosts_of(log), 1)}
    yield {"ph": "M", "name": "process_name", "pid": _PROCESS, "tid": 0, "args": {"name": "simulation"}}
    for host, track in tracks.items():
        yield {"ph": "M", "name": "thread_name", "pid": _PROCESS, "tid": track, "args": {"name": host}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": _PROCESS, "tid": track, "args": {"sort_index": track}}
    times: list[int] = []
    timed: list[Event] = []
    for entry in log:
        times.append(max(round(entry.when * 1e6), times[-1] + 1 if times else 0))
        details: Event = {"seconds": entry.when, "kind": entry.kind} | ({"peer": entry.peer} if entry.peer else {})
        at: Event = {"pid": _PROCESS, "tid": tracks[entry.host], "ts": times[-1]}
        timed.append({"ph": "X", "name": label_of(entry), "cat": entry.kind, "dur": 1, "args": details, **at})
    arrows = [(message.begin, end) for message in find_messages(log) for end in message.arrivals]
    for number, (begin, end) in enumerate(arrows, 1):
        arrow: Event = {"name": label_of(log[begin]), "cat": "message", "id": number, "pid": _PROCESS}
        timed.append(arrow | {"ph": "s", "tid": tracks[log[begin].host], "ts": times[begin]})
        timed.append(arrow | {"ph": "f", "bp": "e", "tid": tracks[log[end].host], "ts": times[end]})
    yield from sorted(timed, key=itemgetter("ts"))  # a slice stays before the arrow that is bound to it
