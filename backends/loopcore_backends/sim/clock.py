"""Simulated clocks: the functions of `time`, the classes of `datetime`, and the clock of the loop's timers.

True time is `world.now`. A host's clocks advance `clock_rate` seconds in each second of true time, and its wall clock
is wrong by `clock_offset` seconds. Processor time advances with the monotonic clock, so that a program which waits for
its own processor time does not wait for ever.
"""

import copyreg
import datetime as dt
import errno
import math
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from loopcore_backends.sim.replacing import Replacement, StandsFor

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host
    from loopcore_backends.sim.world import World

EPOCH = 1_700_000_000.0
"""Wall time in seconds at the start of a simulation: 14 November 2023, 22:13:20 UTC."""

UPTIME = 100_000.0
"""Monotonic time in seconds at the start of a simulation.

Not 0.0: programs that set `last = 0.0` mean "long ago", which holds on a machine that has run for a day.
"""

_localtime, _gmtime, _ctime, _asctime, _strftime = time.localtime, time.gmtime, time.ctime, time.asctime, time.strftime

_NS = 1_000_000_000


def wall_ns(now: float, host: "Host") -> int:
    """Return the time of the host's wall clock, in nanoseconds, when true time is `now`."""
    return int(EPOCH) * _NS + round((now * host.clock_rate + host.clock_offset) * _NS)


class WorldClock:
    """The monotonic clock of one host: the clock of its loop (`loopcore.ports.clock`) and of `time.monotonic`."""

    resolution: float = 1e-9

    def __init__(self, world: "World", host: "Host") -> None:
        self._world = world
        self._host = host

    def now(self) -> float:
        """Seconds since the host started, `UPTIME` at the start of the simulation."""
        return UPTIME + self._world.now * self._host.clock_rate


def replacements(world: "World") -> list[Replacement]:
    """Clocks of the host that runs, and `time.sleep`, which lets the world progress."""

    clocks = _Clocks(world)
    functions = {**clocks.functions(), **_calendar(clocks.wall)}
    _show_datetime_to_cryptography()
    return [
        *((time, name, function) for name, function in functions.items() if hasattr(time, name)),
        (dt, "datetime", SimulatedDatetime),
        (dt, "date", SimulatedDate),
        (copyreg.dispatch_table, dt.datetime, partial(_reduce, SimulatedDatetime)),
        (copyreg.dispatch_table, dt.date, partial(_reduce, SimulatedDate)),
    ]


class _Clocks:
    """What the host that runs reads from its clocks."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._by_number = {
            clock: readings
            for names, readings in (
                ("REALTIME TAI", (self.wall, self.wall_ns)),
                ("MONOTONIC MONOTONIC_RAW BOOTTIME UPTIME UPTIME_RAW HIGHRES", (self.monotonic, self.monotonic_ns)),
                ("PROCESS_CPUTIME_ID THREAD_CPUTIME_ID PROF", (self.processor, self.processor_ns)),
            )
            for name in names.split()
            if (clock := getattr(time, f"CLOCK_{name}", None)) is not None
        }

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions of the module `time` that read or wait, by name."""
        return {
            "time": self.wall,
            "time_ns": self.wall_ns,
            "monotonic": self.monotonic,
            "monotonic_ns": self.monotonic_ns,
            "perf_counter": self.monotonic,
            "perf_counter_ns": self.monotonic_ns,
            "process_time": self.processor,
            "process_time_ns": self.processor_ns,
            "thread_time": self.processor,
            "thread_time_ns": self.processor_ns,
            "clock_gettime": lambda clock, /: self._numbered(clock)[0](),
            "clock_gettime_ns": lambda clock, /: self._numbered(clock)[1](),
            "clock_settime": _refuse_to_set,
            "clock_settime_ns": _refuse_to_set,
            "sleep": self.sleep,
        }

    def wall(self) -> float:
        world = self._world
        return EPOCH + world.now * world.host.clock_rate + world.host.clock_offset

    def wall_ns(self) -> int:
        return wall_ns(self._world.now, self._world.host)

    def monotonic(self) -> float:
        return UPTIME + self._world.now * self._world.host.clock_rate

    def monotonic_ns(self) -> int:
        return round(self.monotonic() * _NS)

    def processor(self) -> float:
        return self._world.now * self._world.host.clock_rate

    def processor_ns(self) -> int:
        return round(self.processor() * _NS)

    def sleep(self, seconds: float, /) -> None:
        if math.isnan(seconds):
            raise ValueError("Invalid value NaN (not a number)")
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self._world.block(lambda: False, self._world.now + seconds / self._world.host.clock_rate)

    def _numbered(self, clock: int) -> tuple[Callable[[], float], Callable[[], int]]:
        try:
            return self._by_number[clock]
        except KeyError:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from None


def _refuse_to_set(*_: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))  # as without CAP_SYS_TIME


def _calendar(wall: Callable[[], float]) -> dict[str, Callable[..., Any]]:
    """Return the functions of the module `time` that take the present moment if they are given none."""

    def localtime(seconds: float | None = None, /) -> time.struct_time:
        return _localtime(wall() if seconds is None else seconds)

    def gmtime(seconds: float | None = None, /) -> time.struct_time:
        return _gmtime(wall() if seconds is None else seconds)

    def ctime(seconds: float | None = None, /) -> str:
        return _ctime(wall() if seconds is None else seconds)

    def asctime(moment: Any = None, /) -> str:
        return _asctime(_localtime(wall()) if moment is None else moment)

    def strftime(text: str, moment: Any = None, /) -> str:
        return _strftime(text, _localtime(wall()) if moment is None else moment)

    return {"localtime": localtime, "gmtime": gmtime, "ctime": ctime, "asctime": asctime, "strftime": strftime}


# ---------------------------------------------------------------- datetime


class _MakesReal(StandsFor):
    """Metaclass of a stand-in whose instances are of the real class.

    So C code recognizes, compares and adds them, also after the simulation.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._real(*args, **kwargs) if "_real" in vars(self) else super().__call__(*args, **kwargs)


class SimulatedDate(dt.date, metaclass=_MakesReal):
    """Stands for `datetime.date`."""

    _real = dt.date

    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(time.time())  # Python 3.15 reads the real clock


class SimulatedDatetime(dt.datetime, metaclass=_MakesReal):
    """Stands for `datetime.datetime`."""

    _real = dt.datetime

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(time.time())

    @classmethod
    def utcnow(cls) -> Any:
        if sys.version_info >= (3, 12):
            text = "datetime.datetime.utcnow() is deprecated: use datetime.datetime.now(datetime.UTC)"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        return cls.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)


def _show_datetime_to_cryptography() -> None:
    """Let the Rust part of `cryptography` see the real class: it keeps the one that it finds when it first needs it."""
    verification = sys.modules.get("cryptography.x509.verification")
    if verification is not None:
        verification.PolicyBuilder().time(dt.datetime(2000, 1, 1))


def _reduce(stand_in: type, value: Any) -> tuple[Any, ...]:
    """How `pickle` and `copy` take `value` apart: pickle insists that a class is what its name stands for."""
    return stand_in, *value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)[1:]
