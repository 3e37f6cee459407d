"""Output: the tables that a person reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loopcore_bench.charts import UNITS
from loopcore_bench.loops import LoopSpec
from tests.benchmarks.harness.strace import Syscalls
from tests.benchmarks.harness.summary import REFERENCE, Figure


def table(figures: Iterable[Figure]) -> str:
    """Markdown, one line a figure, readable as it is."""
    ratios = [f"x {REFERENCE}", "x best peer", "by min", "/ floor"]
    head = ["row", "loop", "compared by", "median", "min", "wall ns", "/s", "p99 us", *ratios]
    return _markdown(head, [_line(figure) for figure in figures])


def idle_table(figures: Iterable[Figure]) -> str:
    """Growth of the server's resident set per idle connection; empty when there was none."""
    lines = [[f.row, f.loop, _number(f.medians["bytes_per_idle"])] for f in figures if "bytes_per_idle" in f.medians]
    return _markdown(["row", "loop", "B of server memory per idle connection"], lines) if lines else ""


def syscall_table(counted: Iterable[Syscalls], shown: int = 6) -> str:
    """System calls per request: all of them, and the most frequent by name."""
    lines = []
    for found in counted:
        if found.calls is None:
            lines.append(
                [found.row, found.loop, f"failed: {found.error}" if found.error else f"skipped: {found.skipped}", ""]
            )
            continue
        top = list(found.per_request().items())[:shown]
        names = ", ".join(f"{name} {_sparse(value)}" for name, value in top)
        lines.append([found.row, found.loop, f"{found.total:.2f}", names])
    return _markdown(["row", "loop", "calls per request", "the most frequent"], lines)


def _sparse(value: float) -> str:
    return f"{value:.2f}" if value >= 0.005 else f"{value:.1g}"


def _markdown(head: list[str], lines: list[list[str]]) -> str:
    widths = [max(len(line[column]) for line in [head, *lines]) for column in range(len(head))]
    rule = ["-" * width for width in widths]
    return "\n".join(_row(line, widths) for line in [head, rule, *lines])


def _row(line: list[str], widths: list[int]) -> str:
    return "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |"


def _line(figure: Figure) -> list[str]:
    if figure.value is None:
        return [figure.row, figure.loop, figure.note or "not measured", *[""] * 9]
    note = figure.remark
    unit = UNITS.get(figure.primary, "")
    best = _ratio(figure.to_best_peer)
    return [
        figure.row,
        figure.loop,
        figure.primary + (f" ({note})" if note else ""),
        f"{figure.value:.0f} {unit}",
        f"{figure.minima[figure.primary]:.0f}",
        _number(figure.medians.get("wall_ns")),
        _number(figure.medians.get("per_second")),
        _number(figure.medians.get("p99_us")),
        _ratio(figure.to_reference),
        f"{best} ({figure.best_peer})" if best else "",
        _ratio(figure.to_best_peer_by_minima),
        _ratio(figure.to_floor),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def loop_line(spec: LoopSpec, facts: dict[str, Any]) -> str:
    """One line about a loop: version, compiled or pure, backend, interpreter version; or why it is skipped."""
    if "skipped" in facts:
        return f"{spec.label}: skipped, {facts['skipped']}"
    parts = [str(facts["version"]), *(str(facts[key]) for key in ("build",) if key in facts)]
    if "backend" in facts:
        parts.append(f"backend {facts['backend']}")
    return f"{spec.label}: {', '.join(parts)}; Python {facts['python']}"
