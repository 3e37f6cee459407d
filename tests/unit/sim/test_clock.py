import asyncio
import copy
import datetime as dt
import json
import pickle
import sys
import time
import warnings
from datetime import datetime as copied_datetime
from typing import Any

import pytest

from loopcore_backends.sim.clock import EPOCH, UPTIME, WorldClock, replacements
from loopcore_backends.sim.replacing import installed

REAL_DATETIME = dt.datetime


def test_time_is_the_world_s(world: Any) -> None:
    with installed(replacements(world)):
        world.now = 2.5
        assert time.time() == EPOCH + 2.5
        assert time.time_ns() == int(EPOCH) * 10**9 + 2_500_000_000
        assert time.monotonic() == time.perf_counter() == UPTIME + 2.5
        assert time.monotonic_ns() == time.perf_counter_ns() == int((UPTIME + 2.5) * 10**9)
        assert time.process_time() == time.thread_time() == 2.5


def test_sleep_moves_the_world_and_nothing_else(world: Any) -> None:
    real = time.monotonic()
    with installed(replacements(world)):
        time.sleep(100_000)
    assert world.now == 100_000
    assert time.monotonic() - real < 1000


@pytest.mark.parametrize(
    ("seconds", "error"), [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError), (None, TypeError)]
)
def test_sleep_refuses_what_the_real_one_refuses(world: Any, seconds: Any, error: type[Exception]) -> None:
    with installed(replacements(world)), pytest.raises(error) as simulated:
        time.sleep(seconds)
    with pytest.raises(error) as real:
        time.sleep(seconds)
    if error is ValueError:
        assert str(simulated.value) == str(real.value)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no clock_gettime")
def test_clock_gettime_knows_the_clocks(world: Any) -> None:
    with installed(replacements(world)):
        world.now = 1.0
        assert time.clock_gettime(time.CLOCK_REALTIME) == time.time()
        assert time.clock_gettime_ns(time.CLOCK_MONOTONIC) == time.monotonic_ns()
        assert time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID) == 1.0
        with pytest.raises(OSError, match="Invalid argument"):
            time.clock_gettime(4711)
        with pytest.raises(PermissionError):
            time.clock_settime(time.CLOCK_REALTIME, 0.0)


def test_broken_down_times_default_to_now(world: Any) -> None:
    with installed(replacements(world)):
        world.now = 40.0
        assert time.gmtime()[:6] == (2023, 11, 14, 22, 14, 0)
        assert time.localtime() == time.localtime(EPOCH + 40)
        assert time.ctime() == time.asctime() == time.ctime(EPOCH + 40)
        assert time.strftime("%M:%S") == "14:00"
        assert time.gmtime(0)[0] == 1970


def test_datetime_shows_the_world_s_time(world: Any) -> None:
    expected = REAL_DATETIME(2023, 11, 14, 22, 13, 20, 500_000, dt.UTC)
    with installed(replacements(world)):
        world.now = 0.5
        assert dt.datetime.now(dt.UTC) == copied_datetime.now(dt.UTC) == expected
        assert dt.datetime.now() == dt.datetime.today() == expected.astimezone().replace(tzinfo=None)
        assert dt.date.today() == expected.astimezone().date()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            assert dt.datetime.utcnow() == expected.replace(tzinfo=None)


def test_instances_are_of_the_real_class(world: Any) -> None:
    before = REAL_DATETIME(2020, 1, 1)
    with installed(replacements(world)):
        inside = dt.datetime(2020, 1, 2)
        assert isinstance(before, dt.datetime)
        assert isinstance(inside, dt.date)
        assert not isinstance(dt.date(2020, 1, 1), dt.datetime)
        assert issubclass(REAL_DATETIME, dt.datetime)
        assert type(inside) == dt.datetime  # noqa: E721
        assert {REAL_DATETIME: 1}[dt.datetime] == 1
        assert inside - before == dt.timedelta(days=1)
        assert pickle.loads(pickle.dumps(inside)) == copy.deepcopy(inside) == inside
        assert pickle.loads(pickle.dumps(dt.datetime)) is dt.datetime
        assert dt.datetime.strptime("2020-01-02", "%Y-%m-%d") == inside
        assert dt.datetime.fromisoformat("2020-01-02") == inside
        assert dt.datetime.combine(inside.date(), dt.time()) == inside
    assert type(inside) is dt.datetime is REAL_DATETIME
    assert pickle.loads(pickle.dumps(inside)) == inside


def test_subclasses_made_meanwhile_are_ordinary(world: Any) -> None:
    with installed(replacements(world)):

        class Moment(dt.datetime):
            pass

        assert type(Moment.now()) is Moment
        assert isinstance(Moment.now(), dt.datetime)
        assert not isinstance(REAL_DATETIME(2020, 1, 1), Moment)


def test_a_host_s_clock_is_wrong_by_its_offset_and_rate(world: Any) -> None:
    world.host.clock_offset = -30.0
    world.host.clock_rate = 2.0
    clock = WorldClock(world, world.host)
    with installed(replacements(world)):
        time.sleep(10.0)
        assert world.now == 5.0
        assert time.time() == EPOCH - 30.0 + 10.0
        assert time.monotonic() == clock.now() == UPTIME + 10.0


def test_asyncio_reads_the_world_s_clock(world: Any) -> None:
    loop = asyncio.new_event_loop()
    try:
        with installed(replacements(world)):
            world.now = 7.0
            assert loop.time() == UPTIME + 7.0
            assert json.dumps(loop.time()) == "100007.0"
    finally:
        loop.close()
