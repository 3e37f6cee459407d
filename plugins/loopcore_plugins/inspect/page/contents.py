"""Contents: the page, and the figures that its script draws."""

import base64
import hashlib
import json
import time
from collections.abc import Sequence
from importlib import resources
from typing import Any, Final

import loopcore
from loopcore_plugins.inspect.figures import Event, Frame, Row
from loopcore_plugins.inspect.listing import shorten
from loopcore_plugins.inspect.protocol import Message
from loopcore_plugins.watchdog.stall import EXPLANATIONS

_SLOWEST: Final = 12
_BUSIEST: Final = 40
_SITES: Final = 100
_LONGEST_NAME: Final = 300


def make_page(figures: Message | None, interval: float = 0.0) -> str:
    """Return the page with `figures`, as `describe` returns them.

    With an `interval`, in seconds, it asks the server that it comes from for other figures that often. Its policy
    allows nothing but its own script and style, and these questions.
    """
    parts = resources.files(__package__)
    page, style, script = ((parts / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js"))
    policy = [
        "default-src 'none'",
        f"style-src '{_hash(style)}'",
        f"script-src '{_hash(script)}'",
        "connect-src 'self'" if interval else "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return (
        page.replace("/* policy */", "; ".join(policy))
        .replace("/* interval */", f"{interval:g}")
        .replace("/* style */", style)
        .replace("/* script */", script)
        # The program chooses names: none of them may end the element.
        .replace("/* figures */", encode(figures).replace("<", "\\u003c"))
    )


def encode(figures: Message | None) -> str:
    """Return figures as JSON."""
    return json.dumps(figures, separators=(",", ":"), allow_nan=False)


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls the inline element with that text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def describe(
    greeting: Message, frames: Sequence[Frame], whole: Frame, sites: Sequence[Message], *, live: bool = False
) -> Message:
    """Return the figures of `frames` and of the `whole` time; `sites` come from the question of that name.

    Times are in seconds, in charts since the first frame began.
    """
    began = frames[0].now - frames[0].seconds
    events = [event for event in whole.events if event.when + event.seconds >= began]
    stalls = [event for event in events if event.stall is not None]
    span = f"figures of the last {whole.seconds:.0f} s" if live else f"{whole.seconds:.1f} s, {_date(began)}"
    rows = [row for row in whole.rows if row.rate]
    return {
        "title": f"{_text(greeting['program'])} ({greeting['pid']}.{greeting['loop']})",
        "facts": [_text(greeting["backend"]), _text(greeting["python"]), span],
        "times": [round(frame.now - began, 3) for frame in frames],
        "utilization": [frame.utilization for frame in frames],
        "delay50": [_percentile(frame.queue_time, 50) for frame in frames],
        "delay99": [_percentile(frame.queue_time, 99) for frame in frames],
        "tick99": [_percentile(frame.ticks, 99) for frame in frames],
        "callbacks": [frame.rates["callbacks"] for frame in frames],
        "received": [frame.rates["bytes_received"] for frame in frames],
        "sent": [frame.rates["bytes_sent"] for frame in frames],
        "cpu": [frame.thread.cpu for frame in frames],
        "runQueue": [frame.thread.run_queue for frame in frames],
        "offCpu": [frame.thread.off_cpu for frame in frames],
        "gil": [frame.thread.gil for frame in frames],
        "phases": {phase: [frame.phases.get(phase, 0.0) for frame in frames] for phase in whole.phases},
        "queued": {source: _bars(each) for source, each in whole.queue_times.items()},
        "whole": {
            "state": whole.state,
            "utilization": whole.utilization,
            "callbacks": whole.rates["callbacks"],
            "delay50": _percentile(whole.queue_time, 50),
            "delay99": _percentile(whole.queue_time, 99),
            "tick99": _percentile(whole.ticks, 99),
            "tasks": whole.tasks,
            "failed": whole.rates["tasks_failed"] * whole.seconds,
            "sockets": whole.sockets,
            "accepted": whole.rates["connections_accepted"],
            "bytes": whole.rates["bytes_received"] + whole.rates["bytes_sent"],
            "stalls": len(stalls),
        },
        "slowest": [_row(row) for row in sorted(rows, key=lambda row: -row.longest)[:_SLOWEST]],
        "busiest": [_row(row) for row in sorted(rows, key=lambda row: -row.busy)[:_BUSIEST]],
        "stalls": [{"at": max(stall.when - began, 0.0), "seconds": stall.seconds} for stall in stalls],
        "events": [_event(event, began) for event in events],
        "sites": [_site(site) for site in sites[:_SITES]],
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


def _event(event: Event, began: float) -> Message:
    stall = event.stall or {}
    holder = stall.get("holder")
    return {
        "at": max(event.when - began, 0.0),
        "seconds": event.seconds,
        "cause": event.cause,
        "explanation": EXPLANATIONS.get(event.cause, ""),
        "place": _text(event.place),
        "task": _text(event.task),
        "stack": _stack(stall.get("stack", ())),
        "request": _text(", ".join(f"{name} {value}" for name, value in (stall.get("request") or {}).items())),
        "awaited": _text(", ".join(stall.get("awaited_by", ()))),
        "holder": "" if holder is None else _text(f"thread {holder['thread']}" + _at(holder["place"])),
    }


def _site(site: Message) -> Message:
    example = site["example"]
    return {
        "place": "" if site["place"] is None else _place(site["place"]),
        "count": site["count"],
        "oldest": site["oldest"],
        "atLeast": site["at_least"],
        "state": site["state"],
        "waitsFor": _text(site["waits_for"]),
        "example": {
            "id": str(example["id"]),  # a number of JavaScript is too short
            "name": _text(example["name"]),
            "coroutine": _text(example["coroutine"]),
            "stack": _stack(example["stack"]),
        },
    }


def describe_task(task: Message) -> Message:
    """Return an answer to the question `task` for the page."""
    history, now_ns = task["history"], task["monotonic_ns"]
    return {
        "awaiters": [_text(name) for name in task["awaiters"]],
        "stack": _stack(task["stack"]),
        "history": None
        if history is None
        else [
            [(event["at_ns"] - now_ns) / 1e9, _text(str(event["what"])), _text(str(event["code"] or ""))]
            for event in history
        ],
    }


def _place(place: Sequence[Any]) -> str:
    return _text("{}:{}, in {}".format(*place))


def _at(place: Sequence[Any] | None) -> str:
    return "" if place is None else f" at {_place(place)}"


def _stack(stack: Sequence[Sequence[Any]]) -> list[str]:
    return [_place(place) for place in stack]


def _text(text: str) -> str:
    """Return a name for the page: printable and bounded. The script sets it as text, never as HTML."""
    return shorten(text, _LONGEST_NAME)
