"""The clock of timers is asyncio's."""

import time

from loopcore.ports.clock import MonotonicClock


def test_clock_reads_the_monotonic_time():
    before = time.monotonic()
    now = MonotonicClock().now()
    assert before <= now <= time.monotonic()


def test_resolution_is_that_of_the_platform():
    assert MonotonicClock().resolution == time.get_clock_info("monotonic").resolution
