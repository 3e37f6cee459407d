"""The targets of loopcore, row by row, and whether the figures meet them.

A target is judged by the medians of one Python: against the best peer, a named peer or the C server, or by a bound.
The verdict is None where a figure that it needs was not measured. "Level" allows for the noise between runs of one
build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.harness.floors import FLOOR

PEERS = ("uvloop", "rloop", "blazio", "zloop", "zuvloop")
"""The loops that loopcore is compared with, on each Python that they have a wheel for."""
LEVEL = 0.97
"""A ratio above this is level: medians of one build differ by that much from run to run."""

Medians = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By row, loop and metric; `primary` is the metric that the row is compared by."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The finding as text, and whether it meets the target. `share` is the fraction of the target that it reaches."""

    text: str
    met: bool
    share: float


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a row."""

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
    """The best peer's figure divided by that of the better of loopcore's backends, and the name of that peer.

    0 if either is missing, or if a figure is 0.
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
        return _compared(medians.get(row, {}), least)

    return Target(row, "level with the best peer" if least == 1 else f"{least:g} x the best peer", judge)


def over(row: str, peers: tuple[str, ...], least: float, ours: str = "") -> Target:
    """So many times less than the best of these; `ours` is the backend that counts, or the better one does."""

    def judge(medians: Medians) -> Verdict | None:
        loops = medians.get(row, {})
        chosen = {
            loop: values for loop, values in loops.items() if loop in peers or (is_ours(loop) and ours in ("", loop))
        }
        return _compared(chosen, least)

    wanted = "level with" if least == 1 else f"{least:g} x"
    which = f"{ours}: " if ours else ""
    return Target(row, f"{which}{wanted} {', '.join(peers)}", judge)


def _compared(loops: Mapping[str, Mapping[str, float]], least: float) -> Verdict | None:
    """Judge whether the best peer takes at least `least` times as long as loopcore; 1 allows for noise (LEVEL)."""
    ratio, peer = against(loops)
    if not ratio:
        return None
    return Verdict(f"{ratio:.2f} x {peer}", ratio >= (LEVEL if least == 1 else least), ratio / least)


def _shown(ratio: float, bound: float) -> str:
    """Two digits, and a third where two do not tell the ratio from the bound."""
    return f"{ratio:.3f}" if f"{ratio:.2f}" == f"{bound:.2f}" else f"{ratio:.2f}"


def _disturbed(loops: Mapping[str, Mapping[str, float]]) -> str:
    """A note if loopcore took less than the C server, by more than noise: that cannot be, the kernel costs as much."""
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
        if value is None:
            return None
        number = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
        return Verdict(f"{number} {unit}", value <= most, most / value if value else 1.0)

    return Target(row, text or f"at most {most:g} {unit}", judge)


def flat(row: str, base: str) -> Target:
    """Over epoll, as cheap as the row `base`; the text has the same ratio for the C server."""

    def judge(medians: Medians) -> Verdict | None:
        loops, few = medians.get(row, {}), medians.get(base, {})
        ratios = {loop: few[loop]["primary"] / loops[loop]["primary"] for loop in loops if loop in few}
        if "loopcore" not in ratios:
            return None
        text = f"{ratios['loopcore']:.2f} x {base}"
        if FLOOR in ratios:
            text += f", the C server {ratios[FLOOR]:.2f} x"
        return Verdict(text + _disturbed(loops), ratios["loopcore"] >= _FLAT, ratios["loopcore"])

    return Target(row, f"epoll: as `{base}`", judge)


_FLAT = 0.9
"""What 5000 more connections may cost: the kernel's tables are larger, and the caches colder."""

_NOTHING = 8.0
"""Bytes below which a figure is rounding."""

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
