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
from tests.benchmarks.harness.floors import PYTHON as PYTHON_FLOOR

PEERS = ("uvloop", "rloop", "blazio", "zloop", "zuvloop")
"""The loops that loopcore is compared with. Those that a Python has no wheel for are left out there."""
LEVEL = 0.97
"""A ratio above this is level: medians of one build differ by that much from run to run."""

BOUNDS = (FLOOR, PYTHON_FLOOR)
"""What is measured beside the loops and is no peer."""

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
    by_cost: bool = True
    """Judged by CPU time, which a floor bounds; how many requests a second there are depends on both ends."""


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
        if not is_ours(loop) and loop not in BOUNDS and metric in values and not values.get("early")
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


def beside_epoll(row: str, most: float) -> Target:
    """Over io_uring, at most so many times what epoll takes."""

    def judge(medians: Medians) -> Verdict | None:
        loops = medians.get(row, {})
        if not {"loopcore", "loopcore:uring"} <= loops.keys():
            return None
        ratio = loops["loopcore:uring"]["primary"] / loops["loopcore"]["primary"]
        return Verdict(f"{_shown(ratio, most)} x epoll{_disturbed(loops)}", ratio <= most, most / ratio)

    return Target(row, f"of our own: loopcore:uring at most {most:g} x epoll", judge)


def at_most(row: str, metric: str, most: float, unit: str, text: str = "") -> Target:
    """A bound for one of the metrics."""

    def judge(medians: Medians) -> Verdict | None:
        value = medians.get(row, {}).get("loopcore", {}).get(metric)
        return None if value is None else Verdict(f"{value:.3g} {unit}", value <= most, most / value if value else 1.0)

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


def rate(row: str) -> Target:
    """Ahead of the best peer in operations a second."""

    def judge(medians: Medians) -> Verdict | None:
        ratio, peer = against(medians.get(row, {}), "wall_ns")
        return Verdict(f"{ratio:.2f} x {peer}", ratio >= 1, ratio) if ratio else None

    return Target(row, "ahead of all in requests a second", judge, by_cost=False)


def of_floor(target: Target, medians: Medians, share: float = 1.0) -> Verdict | None:
    """The verdict for a loop that costs as much as that share of the floor with Python; None where there is none.

    The floor waits with epoll, so a target that is for io_uring alone has no such verdict.
    """
    loops = medians.get(target.row, {})
    if PYTHON_FLOOR not in loops or not target.by_cost:
        return None
    cost = {metric: value * share for metric, value in loops[PYTHON_FLOOR].items()}
    others = {loop: values for loop, values in loops.items() if not is_ours(loop)}
    return target.judge({**medians, target.row: {**others, "loopcore": cost}})


def is_below_all(loops: Mapping[str, Mapping[str, float]]) -> bool:
    """Whether the floor with Python is below every loop over epoll; where a figure denies that, it proves nothing."""
    costs = [values["primary"] for loop, values in loops.items() if loop not in (*BOUNDS, "loopcore:uring")]
    return PYTHON_FLOOR in loops and loops[PYTHON_FLOOR]["primary"] <= min(costs, default=0.0)


def is_at_floor(loops: Mapping[str, Mapping[str, float]]) -> bool:
    """Whether loopcore over epoll is level with the floor with Python."""
    return "loopcore" in loops and loops["loopcore"]["primary"] * LEVEL <= loops[PYTHON_FLOOR]["primary"]


def _allowing(least: float) -> float:
    return LEVEL if least == 1 else least


_FLAT = 0.9
"""What 5000 connections more may cost: the kernel's tables are larger, and caches colder."""

_NOTHING = 8.0
"""Below so many bytes (or nanoseconds) a figure is rounding, and no ratio is made of it."""

_NATIVE = ("uvloop", "rloop", "zloop", "zuvloop")
_SIZES = ("64", "1k", "16k", "100k")
_TCP, _UNIX = (
    tuple(f"{over}-{size}-{connections}" for size in _SIZES for connections in (1, 10, 100)) for over in ("tcp", "unix")
)
_ECHOES = (*_TCP, *_UNIX)
_OF_RINGS = ("split-1k-10", "udp-1k-10", "tls-1k-10", "tls-100k-10", "uvicorn-100", "idle-5k", "churn-10")

TARGETS: tuple[Target, ...] = (
    *(ahead(row, 1.1) for row in ("call_soon", "call_soon_burst", "call_soon_args")),
    *(ahead(row, 1.7) for row in ("sleep0", "sleep0_100")),
    ahead("pingpong", 1.5),
    ahead("spawn", 2.5),
    ahead("gather", 1.5),
    ahead("taskgroup", 2.5),
    over("task_memory", ("asyncio",), 1.25),
    over("timer_insert", ("rloop",), 1),
    *(over(row, ("uvloop",), 3) for row in ("timer_insert", "timer_cancel", "timer_fire")),
    at_most("timer_memory", "bytes", _NOTHING, "B", "cancelled timers keep no memory"),
    at_most("timer_late", "late_us", 100, "us"),
    at_most("timer_late", "early", 0, "early", "never early"),
    ahead("threadsafe", 1.2),
    ahead("getaddrinfo", 1),
    ahead("executor", 1),
    *(near_floor(row, 1.2 if "100k" in row else 1.08) for row in _ECHOES),
    *(over(row, _NATIVE, 1, "loopcore") for row in _ECHOES),
    *(over(row, ("blazio",), 1, "loopcore:uring") for row in _TCP),
    *(beside_epoll(row, 1.05) for row in (*_ECHOES, *_OF_RINGS)),
    ahead("split-1k-10", 1),
    at_most("io_busy", "wait_us", 25, "us"),
    at_most("io_busy", "wait_p99_us", 200, "us", "at most 200 us at 99 %"),
    ahead("buffered-1k-10", 1.15),
    over("sock-1k-10", ("rloop",), 1),
    *(ahead(row, 1.1) for row in ("streams-1k-10", "streams-100k-10")),
    ahead("streams-own-1k-10", 1.6),
    over("tls-1k-10", ("uvloop",), 1.3),
    over("tls-100k-10", ("uvloop",), 1.1),
    ahead("udp-1k-10", 1.1),
    *(kind for row in ("uvicorn-100", "aiohttp-100") for kind in (ahead(row, 1), rate(row))),
    ahead("churn-10", 1.1),
    ahead("process", 1),
    over("loop_cycle", ("asyncio",), 1),
    *(flat(row, "idle-0") for row in ("idle-1k", "idle-5k")),
)
