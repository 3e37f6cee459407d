"""The loop's delay, against what its definition gives when it is worked out tick by tick."""

from hypothesis import given
from hypothesis import strategies as st

from loopcore import Histogram, HistogramSnapshot, Measurements
from loopcore_plugins.metrics.delay import loop_delay

SECOND = 10**9
DURATIONS = st.lists(st.integers(0, 20 * SECOND), max_size=40)
IDLE = st.integers(0, 100 * SECOND)


def measured(durations: list[int], idle_ns: int) -> Measurements:
    ticks = Histogram()
    for duration in durations:
        ticks.record(duration)
    return Measurements(0.01, idle_ns, sum(durations), ticks.snapshot(), Histogram().snapshot(), {}, {})


def time_above(delay: HistogramSnapshot, bucket: int) -> int:
    """Return the microseconds in which the delay was beyond that bucket."""
    return sum(delay.buckets[bucket + 1 :])


@given(DURATIONS, IDLE, st.integers(0, 254))
def test_the_time_beyond_a_bound_is_what_ticks_spend_beyond_it(durations: list[int], idle_ns: int, bucket: int) -> None:
    delay = loop_delay(measured(durations, idle_ns))
    bound = Histogram.bounds()[bucket]
    exact_us = sum(max(duration - bound, 0) for duration in durations) / 1000
    # A duration is known to a sixteenth of itself or 32 ns, and each bucket is rounded down to whole microseconds.
    uncertain_us = sum(duration / 16 + 32 for duration in durations if duration * 17 / 16 + 32 > bound) / 1000
    assert -len(delay.buckets) - uncertain_us <= time_above(delay, bucket) - exact_us <= uncertain_us


@given(DURATIONS, IDLE)
def test_its_count_is_the_time_of_the_loop(durations: list[int], idle_ns: int) -> None:
    delay = loop_delay(measured(durations, idle_ns))
    spent_us = (idle_ns + sum(durations)) / 1000
    uncertain_us = sum(duration / 16 + 32 for duration in durations) / 1000
    assert spent_us - uncertain_us - len(delay.buckets) <= delay.count <= spent_us + uncertain_us
    assert delay.sum_ns >= 0


@given(DURATIONS, DURATIONS, IDLE, IDLE)
def test_no_bucket_ever_goes_back(first: list[int], more: list[int], idle_ns: int, more_idle_ns: int) -> None:
    before = loop_delay(measured(first, idle_ns))
    after = loop_delay(measured(first + more, idle_ns + more_idle_ns))
    assert all(now >= then for now, then in zip(after.buckets, before.buckets, strict=True))
    assert after.sum_ns >= before.sum_ns


def test_half_a_second_of_a_minute_is_seen_by_the_99th_percentile() -> None:
    ticks = [100_000] * 100_000 + [SECOND // 2] * 2  # ten seconds in short ticks, and one in two long ones
    delay = loop_delay(measured(ticks, 39 * SECOND))
    assert delay.percentile(50) < 1000
    assert 0.2 * SECOND < delay.percentile(99) <= 0.3 * SECOND
    assert measured(ticks, 0).tick.percentile(99) < 0.001 * SECOND


def test_a_loop_that_never_ran_has_no_delay() -> None:
    assert loop_delay(measured([], 0)).count == 0
