"""Histogram: where a duration is counted, and what can be read from the counts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore import Histogram, HistogramSnapshot

DURATIONS = st.integers(min_value=0, max_value=1 << 42)


def filled(*durations: int) -> HistogramSnapshot:
    histogram = Histogram()
    for duration in durations:
        histogram.record(duration)
    return histogram.snapshot()


def test_bounds_rise_and_end_in_infinity() -> None:
    bounds = Histogram.bounds()
    assert list(bounds) == sorted(set(bounds))
    assert bounds[0] == 64
    assert bounds[-1] == float("inf")


def test_buckets_are_at_most_an_eighth_wide() -> None:
    bounds = Histogram.bounds()[8:-1]
    assert all(upper / lower <= 1.125 for lower, upper in pairwise(bounds))


@given(DURATIONS)
def test_a_duration_is_in_the_bucket_below_whose_bound_it_lies(duration: int) -> None:
    bucket = filled(duration).buckets.index(1)
    bounds = Histogram.bounds()
    assert duration < bounds[bucket]
    assert bucket == 0 or duration >= bounds[bucket - 1]


@given(st.lists(DURATIONS, min_size=1, max_size=50))
def test_count_sum_and_extremes_are_exact(durations: list[int]) -> None:
    snapshot = filled(*durations)
    assert snapshot.count == sum(snapshot.buckets) == len(durations)
    assert snapshot.sum_ns == sum(durations)
    assert (snapshot.min_ns, snapshot.max_ns) == (min(durations), max(durations))
    assert snapshot.mean_ns == sum(durations) / len(durations)


@given(st.lists(st.integers(min_value=1000, max_value=1 << 39), min_size=1, max_size=50), st.floats(0.0, 100.0))
def test_a_percentile_is_at_most_an_eighth_too_long(durations: list[int], percent: float) -> None:
    durations.sort()
    rank = max(1, -(-len(durations) * percent // 100))
    exact = durations[int(rank) - 1]
    assert exact <= filled(*durations).percentile(percent) <= exact * 1.125 + 64


def test_an_empty_histogram_is_all_zero() -> None:
    snapshot = Histogram().snapshot()
    assert (snapshot.count, snapshot.sum_ns, snapshot.min_ns, snapshot.max_ns) == (0, 0, 0, 0)
    assert (snapshot.mean_ns, snapshot.percentile(99.0)) == (0.0, 0.0)


@pytest.mark.parametrize("percent", [-0.1, 100.1, float("nan")])
def test_no_percentile_outside_of_zero_to_a_hundred(percent: float) -> None:
    with pytest.raises(ValueError, match="percentage"):
        filled(1).percentile(percent)


def test_a_negative_duration_counts_as_none() -> None:
    assert filled(-5) == filled(0)


def test_the_difference_of_two_snapshots_is_what_came_between() -> None:
    histogram = Histogram()
    histogram.record(100)
    earlier = histogram.snapshot()
    histogram.record(5000)
    difference = histogram.snapshot().since(earlier)
    assert (difference.count, difference.sum_ns) == (1, 5000)
    assert difference.buckets == filled(5000).buckets
