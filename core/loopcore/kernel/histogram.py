"""Histogram: durations in buckets whose width grows with the duration.

Log-linear, as in HdrHistogram: eight buckets of equal width for each doubling, above a floor of 64 nanoseconds, up to
17 minutes. A percentile read from it is at most an eighth off, and recording a duration increments one integer. Two
snapshots can be subtracted: a caller gets the figures "since the last time" without resetting them for other callers.
"""

from typing import NamedTuple

_FLOOR_BITS = 6  # the lowest 6 bits of a duration are ignored
_STEP_BITS = 3  # 2**3 buckets for each doubling
_WHOLE = 2 << _STEP_BITS  # the buckets below are as wide as the floor
_BUCKETS = 256
_LAST = _BUCKETS - 1
_EMPTY: list[int] = [0] * _BUCKETS


def _upper_bound(bucket: int) -> float:
    if bucket == _LAST:
        return float("inf")
    doublings, step = divmod(bucket + 1, 1 << _STEP_BITS)
    if doublings == 0:
        return step << _FLOOR_BITS
    return ((1 << _STEP_BITS) + step) << (_FLOOR_BITS + doublings - 1)


BOUNDS: tuple[float, ...] = tuple(_upper_bound(bucket) for bucket in range(_BUCKETS))
"""Upper bounds of the buckets, in nanoseconds; a duration in a bucket is below its bound. The last is infinity."""


class HistogramSnapshot(NamedTuple):
    """The content of a histogram at one moment. All durations are in nanoseconds."""

    count: int  # type: ignore[assignment]  # this hides tuple's method of the same name
    sum_ns: int
    min_ns: int
    """The shortest duration, 0 if there is none. In a difference: the shortest up to the later of the two snapshots."""
    max_ns: int
    """The longest duration, likewise."""
    buckets: tuple[int, ...]
    """The number of durations in each bucket; `Histogram.bounds()` returns the upper bounds."""

    @property
    def mean_ns(self) -> float:
        """The mean, 0.0 if nothing was recorded."""
        return self.sum_ns / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return a duration that `percent` of those recorded do not exceed: a bucket's bound, or the maximum if less.

        0.0 if nothing was recorded. Raises ValueError for a percentage out of 0..100.
        """
        if not 0.0 <= percent <= 100.0:
            raise ValueError(f"a percentage is between 0 and 100, not {percent!r}")
        rank = self.count * percent / 100.0
        seen = 0
        for number, bound in zip(self.buckets, BOUNDS, strict=True):
            seen += number
            if number and seen >= rank:
                return float(max(self.min_ns, min(bound, self.max_ns)))
        return 0.0

    def since(self, earlier: "HistogramSnapshot") -> "HistogramSnapshot":
        """Return the durations recorded between `earlier`, a snapshot of the same histogram, and this one."""
        buckets = tuple(now - then for now, then in zip(self.buckets, earlier.buckets, strict=True))
        return HistogramSnapshot(sum(buckets), self.sum_ns - earlier.sum_ns, self.min_ns, self.max_ns, buckets)


class Histogram:
    """Counts durations. Thread: one writes; any may take snapshots, which show only recorded durations."""

    __slots__ = ("_sum", "_min", "_max", "_buckets")

    def __init__(self) -> None:
        self._sum: int = 0
        self._min: int = -1
        self._max: int = 0
        self._buckets: list[int] = list(_EMPTY)

    def record(self, duration_ns: int) -> None:
        """Count one duration, in nanoseconds; a negative one (the clock was set back) counts as zero."""
        if duration_ns < 0:
            duration_ns = 0
        bucket = duration_ns >> _FLOOR_BITS
        shift = 0
        while bucket >> shift >= _WHOLE:
            shift += 1
        bucket = (shift << _STEP_BITS) + (bucket >> shift)
        if bucket > _LAST:
            bucket = _LAST
        # Snapshots read in the opposite order: a duration in the sum is also in a bucket, one in a bucket in the
        # extremes.
        if self._min < 0 or duration_ns < self._min:
            self._min = duration_ns
        if duration_ns > self._max:
            self._max = duration_ns
        self._buckets[bucket] += 1
        self._sum += duration_ns

    def snapshot(self) -> HistogramSnapshot:
        """Return the present content. Thread: any."""
        sum_ns = self._sum
        buckets = tuple(self._buckets)
        return HistogramSnapshot(sum(buckets), sum_ns, max(self._min, 0), self._max, buckets)

    @staticmethod
    def bounds() -> tuple[float, ...]:
        """Return the upper bounds of the buckets, in nanoseconds, the same for all histograms; the last is infinity."""
        return BOUNDS
