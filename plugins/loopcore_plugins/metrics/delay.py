"""Loop delay: how long an event that arrives at a random moment waits for the loop.

Node and others measure it with a timer that checks regularly how late it is: that wakes an idle loop, changes the
program it measures, and samples a hundred moments a second. Here it is derived from exact data of the meter: an event
during a wait has no delay, an event during a tick waits for the rest of it. The histogram has one
observation for each microsecond of the loop's time, so a stall of half a second weighs half a second, not one tick in
many thousands. Its resolution is that of the tick histogram's buckets: the durations are up to a sixteenth off.
"""

from loopcore import Histogram, HistogramSnapshot, Measurements

_OBSERVATION_NS = 1000


def loop_delay(measured: Measurements) -> HistogramSnapshot:
    """Return the histogram of loop delays; `count` is the time it covers, in microseconds."""
    spent_ns, sum_ns, longer = [], 0.0, 0
    bounds = Histogram.bounds()
    edges = list(zip((0.0, *bounds), bounds, measured.tick.buckets, strict=False))
    for low, high, ticks in reversed(edges):
        # A tick passes through every delay up to its duration: ticks in longer buckets pass through all of this one.
        middle = low if high == float("inf") else (low + high) / 2
        spent_ns.append(ticks * (middle - low) + (longer * (high - low) if longer else 0.0))
        sum_ns += ticks * middle * middle / 2
        longer += ticks
    spent_ns[-1] += measured.idle_ns
    buckets = tuple(int(each) // _OBSERVATION_NS for each in reversed(spent_ns))
    return HistogramSnapshot(sum(buckets), int(sum_ns) // _OBSERVATION_NS, 0, measured.tick.max_ns, buckets)
