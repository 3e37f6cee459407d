"""Anchors: whether a moment on a track lies within a slice; only then is an arrow's end drawn."""

from bisect import bisect_right
from collections.abc import Hashable, Iterable
from operator import itemgetter


class Anchors:
    """The slices of all tracks, as (track, begin, end) in one unit of time; those of one track nest."""

    def __init__(self, slices: Iterable[tuple[Hashable, float, float]]) -> None:
        self._by_track: dict[Hashable, tuple[list[float], list[float]]] = {}
        for track, begin, end in sorted(slices, key=itemgetter(1)):
            begins, latest = self._by_track.setdefault(track, ([], []))
            begins.append(begin)
            latest.append(max(end, latest[-1]) if latest else end)

    def holds(self, track: Hashable, at: float, slack: float = 0.0) -> bool:
        """Tell whether `at` lies within a slice of `track`, or at most `slack` outside it."""
        begins, latest = self._by_track.get(track, ([], []))
        position = bisect_right(begins, at + slack)
        # Slices nest, so of those that began before, only the one that ends last matters.
        return position > 0 and latest[position - 1] >= at - slack
