"""What slows all loops of a row alike is taken out of their times.

A shared machine may be half as fast in the next second. Loops that are measured in turns are slowed by that alike, so
what they are to each other within a turn tells more than times of different turns do. A row's times are a table, a line
a turn and a column a loop. The slowdown of a line is the median of what its values are to the medians of their columns,
and the line is divided by it: a step of Tukey's median polish. What the values of a line are to each other stays.
"""

from __future__ import annotations

import statistics
from collections import defaultdict

TIMES = ("cpu_ns", "wall_ns")

Line = dict[str, dict[str, float]]
"""The metrics of a turn, or of a round, by loop; one that has failed is missing."""


def steady(lines: list[Line]) -> list[Line]:
    """The lines, with the slowdown of each taken out of its TIMES."""
    made = [{label: dict(metrics) for label, metrics in line.items()} for line in lines]
    for name in TIMES:
        columns: dict[str, list[float]] = defaultdict(list)
        for line in made:
            for label, metrics in line.items():
                if name in metrics:
                    columns[label].append(metrics[name])
        usual = {label: median for label, values in columns.items() if (median := statistics.median(values)) > 0}
        for line in made:
            timed = {label: metrics for label, metrics in line.items() if label in usual and name in metrics}
            if timed:
                slowdown = statistics.median(metrics[name] / usual[label] for label, metrics in timed.items()) or 1.0
                for metrics in timed.values():
                    metrics[name] /= slowdown
    return made


def medians(lines: list[Line], label: str) -> dict[str, float]:
    """The medians of a loop's metrics over the lines in which it is."""
    mine = [line[label] for line in lines if label in line]
    return {name: statistics.median(metrics[name] for metrics in mine) for name in mine[0]}
