"""A model of a server's loop in virtual time, to see what `shed` does to the times of its clients, free of the machine.

A tick is as the real one's: what is ready runs first, then the events, then the timers that were due when it began. A
connection is accepted in one tick, its request read in the next, and answered by a callback in the one after.
"""

import heapq
import random
from collections.abc import Callable
from typing import Any

from loopcore_plugins.policy import Shed


class Handle:
    """A callback that can be cancelled."""

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        self.callback = None

    def run(self) -> None:
        if self.callback is not None:
            self.callback(*self.args)


class Socket:
    """An accepted connection, as far as a policy looks at it."""

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", 80)


class ModelLoop:
    """The loop of a server that computes `work` seconds for each connection."""

    def __init__(self, work: float) -> None:
        self.now = 0.0
        self.work = work
        self.shed: Shed | None = None
        self.latencies: list[tuple[float, float]] = []
        """Of each client that was served, when it came, and how long it took."""
        self._ready: list[Handle] = []
        self._timers: list[tuple[float, int, Handle]] = []
        self._readable: list[float] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Handle:
        handle = Handle(callback, args)
        self._ready.append(handle)
        return handle

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Handle:
        handle = Handle(callback, args)
        heapq.heappush(self._timers, (when, len(self.latencies), handle))
        return handle

    def run(self, arrivals: list[float]) -> None:
        """Serve clients that connect at these moments, in order, until all are served or refused."""
        arrivals = arrivals[::-1]
        while arrivals or self._ready or self._readable:
            self._wait(arrivals)
            due = self._collect(arrivals)
            ready, self._ready = self._ready, []
            for handle in ready:
                self.now += 20e-6
                handle.run()
            self._accept(*due[:2])
            for handle in due[2]:
                handle.run()

    def _wait(self, arrivals: list[float]) -> None:
        if not self._ready and not self._readable:
            deadlines = [*arrivals[-1:], *(timer[0] for timer in self._timers[:1])]
            self.now = max(self.now, min(deadlines))

    def _collect(self, arrivals: list[float]) -> tuple[list[float], list[float], list[Handle]]:
        readable, self._readable = self._readable, []
        new = []
        while arrivals and arrivals[-1] <= self.now:
            new.append(arrivals.pop())
        timers = []
        while self._timers and self._timers[0][0] <= self.now:
            timers.append(heapq.heappop(self._timers)[2])
        return readable, new, timers

    def _accept(self, readable: list[float], new: list[float]) -> None:
        for arrival in readable:
            self.now += 50e-6
            self.call_soon(self._answer, arrival)
        for arrival in new:
            self.now += 50e-6
            if self.shed is None or self.shed.loopcore_admit_connection(Socket()):  # type: ignore[arg-type]
                self._readable.append(arrival)

    def _answer(self, arrival: float) -> None:
        self.now += self.work
        self.latencies.append((arrival, self.now - arrival))


def arrivals(rate: float, begin: float, end: float, seed: int = 1) -> list[float]:
    """Return random moments (Poisson) between two, so many a second."""
    source = random.Random(seed)
    moments = []
    moment = begin + source.expovariate(rate)
    while moment < end:
        moments.append(moment)
        moment += source.expovariate(rate)
    return moments


def percentile_99(latencies: list[tuple[float, float]], begin: float, end: float) -> float:
    """Return the 99th percentile for the clients that came between two moments."""
    times = sorted(latency for arrival, latency in latencies if begin <= arrival < end)
    return times[len(times) * 99 // 100]
