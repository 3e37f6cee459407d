"""What loopcore was to reach, row by row, and whether the figures say that it did.

A target is judged by the medians of one Python: against the best peer, against a named one, against the C server, or by
a bound. `verdict` is None where what it needs was not measured. "Level" allows for what one build differs by from run
to run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.harness.floors import FLOOR

PEERS = ("uvloop", "rloop", "blazio", "zloop", "zuvloop")
"""The loops that loopcore is compared with. Those that a Python has no wheel for are left out there."""
LEVEL = 0.97
"""A ratio above this is level: medians of one build differ by that much from run to run."""

Medians = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By row, loop and metric; `primary` is the metric that the row is compared by."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found, for a person, and whether it is enough. `share` is how much of what is wanted that is."""

    text: str
    met: bool
    share: float


@dataclass(frozen=True, slots=True)
class Target:
    """What is wanted of a row."""

    row: str
    text: str
    judge: Callable[[Medians], Verdict | None]


def medians_of(document: Mapping[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """The medians of a document of the harness."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for figure in document["figures"]:
        values = dict(figure["medians"])
        if (primary := values.get(figure["primary"])) is not None:
            found.setdefault(figure["row"], {})[figure["loop"]] = {**values, "primary": primary}
    return found


def is_ours(loop: str) -> bool:
    """Tell whether it is loopcore, compiled, on any backend."""
    return loop.startswith("loopcore")


def against(loops: Mapping[str, Mapping[str, float]], metric: str = "primary") -> tuple[float, str]:
    """How many times less the better of loopcore's backends takes than the best peer, and which that is.

    0 without either, and where one of them takes nothing: there is no ratio to that.
    """
    ours = [values[metric] for loop, values in loops.items() if is_ours(loop) and metric in values]
    peers = {
        loop: values[metric]
        for loop, values in loops.items()
        if not is_ours(loop) and loop != FLOOR and metric in values and not values.get("early")
    }
    if not ours or not peers or min(*ours, *peers.values()) <= 0:
        return 0.0, ""
    best = min(peers, key=lambda loop: peers[loop])
    return peers[best] / min(ours), best


def ahead(row: str, least: float) -> Target:
    """So many times less than the best peer."""

    def judge(medians: Medians) -> Verdict | None:
        ratio, peer = against(medians.get(row, {}))
        return Verdict(f"{ratio:.2f} x {peer}", ratio >= _allowing(least), ratio / least) if ratio else None

    return Target(row, "level with the best peer" if least == 1 else f"{least:g} x the best peer", judge)


def over(row: str, peers: tuple[str, ...], least: float, ours: str = "") -> Target:
    """So many times less than the best of these; `ours` is the backend that counts, or the better one does."""

    def judge(medians: Medians) -> Verdict | None:
        loops = medians.get(row, {})
        chosen = {
            loop: values for loop, values in loops.items() if loop in peers or (is_ours(loop) and ours in ("", loop))
        }
        ratio, peer = against(chosen)
        return Verdict(f"{ratio:.2f} x {peer}", ratio >= _allowing(least), ratio / least) if ratio else None

    wanted = "level with" if least == 1 else f"{least:g} x"
    which = "" if not ours else f"{ours}: "
    return Target(row, f"{which}{wanted} {', '.join(peers)}", judge)


def _shown(ratio: float, bound: float) -> str:
    """Two digits, and a third where two do not tell the ratio from the bound."""
    return f"{ratio:.3f}" if f"{ratio:.2f}" == f"{bound:.2f}" else f"{ratio:.2f}"


def _disturbed(loops: Mapping[str, Mapping[str, float]]) -> str:
    """A word where loopcore took less than the C server by more than runs differ: the kernel asks for that much."""
    both = FLOOR in loops and "loopcore" in loops
    return ", disturbed" if both and loops["loopcore"]["primary"] < LEVEL * loops[FLOOR]["primary"] else ""


def near_floor(row: str, most: float) -> Target:
    """Over epoll, at most so many times what the C server takes."""

    def judge(medians: Medians) -> Verdict | None:
        loops = medians.get(row, {})
        if "loopcore" not in loops or FLOOR not in loops:
            return None
        ratio = loops["loopcore"]["primary"] / loops[FLOOR]["primary"]
        return Verdict(f"{_shown(ratio, most)} x C{_disturbed(loops)}", ratio <= most, most / ratio)

    return Target(row, f"epoll: at most {most:g} x the C server", judge)


def at_most(row: str, metric: str, most: float, unit: str, text: str = "") -> Target:
    """A bound for one of the metrics."""

    def judge(medians: Medians) -> Verdict | None:
        value = medians.get(row, {}).get("loopcore", {}).get(metric)
        return (
            None
            if value is None
            else Verdict(
                f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}",
                value <= most,
                most / value if value else 1.0,
            )
        )

    return Target(row, text or f"at most {most:g} {unit}", judge)


def flat(row: str, base: str) -> Target:
    """Over epoll, level with what the row `base` costs; beside it stands how level the C server is."""

    def judge(medians: Medians) -> Verdict | None:
        loops, few = (medians.get(name, {}) for name in (row, base))
        ratio, kernels = (
            few[loop]["primary"] / loops[loop]["primary"] if loop in loops and loop in few else 0.0
            for loop in ("loopcore", FLOOR)
        )
        if not ratio:
            return None
        text = f"{ratio:.2f} x {base}" + f", the C server {kernels:.2f} x" * bool(kernels) + _disturbed(loops)
        return Verdict(text, ratio >= _FLAT, ratio)

    return Target(row, f"epoll: as `{base}`", judge)


def _allowing(least: float) -> float:
    return LEVEL if least == 1 else least


_FLAT = 0.9
"""What 5000 connections more may cost: the kernel's tables are larger, and caches colder."""

_NOTHING = 8.0
"""Below so many bytes (or nanoseconds) a figure is rounding, and no ratio is made of it."""

_TCP, _UNIX = (
    tuple(f"{over}-{size}-{connections}" for size in ("64", "1k", "16k", "100k") for connections in (1, 10, 100))
    for over in ("tcp", "unix")
)

TARGETS: tuple[Target, ...] = (
    *(ahead(row, 1.5) for row in ("spawn", "sleep0", "sleep0_100", "pingpong")),
    *(ahead(row, 1.1) for row in ("gather", "taskgroup", "call_soon")),
    at_most("task_memory", "bytes", 800, "B"),
    *(ahead(row, 1) for row in ("call_soon_burst", "threadsafe", "executor", "getaddrinfo")),
    *(ahead(row, 1) for row in ("timer_insert", "timer_cancel", "timer_fire")),
    at_most("timer_memory", "bytes", _NOTHING, "B", "cancelled timers keep no memory"),
    at_most("timer_late", "late_us", 100, "us"),
    at_most("timer_late", "early", 0, "early", "never early"),
    *(ahead(row, 1) for row in (*_TCP, *_UNIX)),
    *(near_floor(row, 1.12) for row in _TCP if "-64-" not in row),
    *(ahead(row, 1) for row in ("buffered-1k-10", "split-1k-10", "sock-1k-10", "udp-1k-10", "churn-10", "process")),
    *(ahead(row, 1) for row in ("streams-1k-10", "streams-100k-10", "streams-own-1k-10", "tls-1k-10", "tls-100k-10")),
    *(ahead(row, 1) for row in ("uvicorn-100", "aiohttp-100")),
    at_most("io_busy", "wait_us", 25, "us"),
    at_most("io_busy", "wait_p99_us", 200, "us", "at most 200 us at 99 %"),
    over("loop_cycle", ("asyncio",), 1),
    *(flat(row, "idle-0") for row in ("idle-1k", "idle-5k")),
)
