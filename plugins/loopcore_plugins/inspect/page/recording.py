"""Recording: watch a loop for some time, then write the page: `page.html` with style, script and figures inserted."""

import json
import time
from collections.abc import Callable
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Final

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.inspect.client import Client, GoneError, connect
from loopcore_plugins.inspect.figures import Frame, Row, compare
from loopcore_plugins.inspect.listing import shorten
from loopcore_plugins.inspect.observer import PARTS
from loopcore_plugins.inspect.places import Address
from loopcore_plugins.inspect.protocol import Message

FRAMES: Final = 60
"""The number of samples; fewer in a short time, because under a tenth of a second a sample means little."""
SHORTEST: Final = 0.1
_SLOWEST: Final = 12
_BUSIEST: Final = 40
_LONGEST_NAME: Final = 300


def record(address: Address, path: Path, seconds: float, tell: Callable[[float], None]) -> None:
    """Watch the loop at `address` for `seconds`, or until it ends, and write the page to `path`.

    `tell` is called now and then with the seconds that have passed.

    Raises GoneError if it ends before there are two samples, UsageError if the file cannot be written.
    """
    with connect(address) as client:
        client.ask("watch", parts=sorted(PARTS))
        samples = _take_samples(client, seconds, tell)
        text = make_page(client.greeting, samples)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror}") from None


def _take_samples(client: Client, seconds: float, tell: Callable[[float], None] = lambda _: None) -> list[Message]:
    samples: list[Message] = []
    interval = max(SHORTEST, seconds / FRAMES)
    begin = time.monotonic()
    try:
        while not samples or time.monotonic() < begin + seconds or len(samples) < 2:
            time.sleep(max(begin + interval * (len(samples) + 1) - time.monotonic(), 0.0))
            samples.append(client.ask("sample"))
            tell(time.monotonic() - begin)
    except GoneError:
        if len(samples) < 2:
            raise
    return samples


def make_page(greeting: Message, samples: list[Message]) -> str:
    """Return the page for two samples or more."""
    frames = [compare(earlier, later) for earlier, later in pairwise(samples)]
    figures = json.dumps(describe(greeting, frames, compare(samples[0], samples[-1])), separators=(",", ":"))
    parts = resources.files(__package__)
    return (
        (parts / "page.html")
        .read_text(encoding="utf-8")
        .replace("/* style */", (parts / "page.css").read_text(encoding="utf-8"))
        .replace("/* script */", (parts / "page.js").read_text(encoding="utf-8"))
        # The program chooses names: none of them may end the element.
        .replace("/* figures */", figures.replace("<", "\\u003c"))
    )


def describe(greeting: Message, frames: list[Frame], whole: Frame) -> Message:
    """Return the data that the page's script draws. Times are in seconds, in charts since the recording began."""
    began = frames[0].now - frames[0].seconds
    seen = [stall for stall in (*whole.stalls["past"], whole.stall) if stall is not None]
    stalls = [stall for stall in seen if stall["when"] + stall["seconds"] >= began]
    rows = [row for row in whole.rows if row.rate]
    return {
        "title": f"{_text(greeting['program'])} ({greeting['pid']}.{greeting['loop']})",
        "facts": [_text(greeting["backend"]), _text(greeting["python"]), f"{whole.seconds:.1f} s", _date(began)],
        "times": [round(frame.now - began, 3) for frame in frames],
        "utilization": [frame.utilization for frame in frames],
        "delay50": [_percentile(frame.queue_time, 50) for frame in frames],
        "delay99": [_percentile(frame.queue_time, 99) for frame in frames],
        "tick99": [_percentile(frame.ticks, 99) for frame in frames],
        "callbacks": [frame.rates["callbacks"] for frame in frames],
        "received": [frame.rates["bytes_received"] for frame in frames],
        "sent": [frame.rates["bytes_sent"] for frame in frames],
        "phases": {phase: [frame.phases.get(phase, 0.0) for frame in frames] for phase in whole.phases},
        "queued": {source: _bars(each) for source, each in whole.queue_times.items()},
        "whole": {
            "utilization": whole.utilization,
            "callbacks": whole.rates["callbacks"],
            "delay50": _percentile(whole.queue_time, 50),
            "delay99": _percentile(whole.queue_time, 99),
            "tick99": _percentile(whole.ticks, 99),
            "tasks": whole.tasks,
            "failed": whole.rates["tasks_failed"] * whole.seconds,
            "sockets": whole.sockets,
            "bytes": whole.rates["bytes_received"] + whole.rates["bytes_sent"],
            "stalls": len(stalls),
        },
        "slowest": [_row(row) for row in sorted(rows, key=lambda row: -row.longest)[:_SLOWEST]],
        "busiest": [_row(row) for row in sorted(rows, key=lambda row: -row.busy)[:_BUSIEST]],
        "stalls": [_stall(stall, began) for stall in stalls],
    }


def _date(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def _percentile(histogram: loopcore.HistogramSnapshot, percent: float) -> float | None:
    return histogram.percentile(percent) / 1e9 if histogram.count else None


def _bars(histogram: loopcore.HistogramSnapshot) -> list[list[float]]:
    """Return (upper bound in seconds, count), four buckets of the histogram to each."""
    bounds = loopcore.Histogram.bounds()
    bars: list[list[float]] = []
    for first in range(0, len(bounds) - 4, 4):
        count = sum(histogram.buckets[first : first + 4])
        if count:
            bars.append([bounds[first + 3] / 1e9, count])
    return bars


def _row(row: Row) -> Message:
    return {**row._asdict(), "name": _text(row.name), "place": _text(row.place)}


def _stall(stall: Message, began: float) -> Message:
    place = stall["place"]
    return {
        "at": max(stall["when"] - began, 0.0),
        "seconds": stall["seconds"],
        "place": "" if place is None else _text(f"{place[0]}:{place[1]}, in {place[2]}"),
        "task": _text(stall["task"] or ""),
    }


def _text(text: str) -> str:
    """Return a name for the page: printable and bounded. The script sets it as text, never as HTML."""
    return shorten(text, _LONGEST_NAME)
