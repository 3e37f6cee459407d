"""The world: the clock, what is about to happen, and which of it happens next.

The loop of the main host runs by itself; when it waits, the world goes on inside that wait: events happen, the loops of
other hosts make a tick each, threads of the program run until they block, and once everything waits, the clock jumps to
the next moment at which something does. Nothing takes time but waiting, so a run is decided by its tape alone.
"""

import gc
import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final, Protocol

from loopcore.sim import current
from loopcore.sim.errors import DeadlockError, LivelockError
from loopcore.sim.log import LogEntry
from loopcore.sim.tape import Tape
from loopcore_backends.sim import collecting
from loopcore_backends.sim.descriptors import Descriptors
from loopcore_backends.sim.hosts import Host
from loopcore_backends.sim.network import Network
from loopcore_backends.sim.threads.baton import SimThread, Threads
from loopcore_backends.sim.threads.explaining import explain

SECOND: Final = 1_000_000_000
_TICK: Final = 1_000
"""Nanoseconds that a wait without a limit of time takes: programs that spin until a moment come to an end."""
STEPS_WITHOUT_TIME: Final = 1_000_000


class Event:
    """Something that happens at a moment: an arrival, the end of a job. `cancel` prevents it."""

    __slots__ = ("when", "number", "action", "label")

    def __init__(self, when: int, number: int, action: "Callable[[], object] | None", label: str) -> None:
        self.when = when
        """Nanoseconds since the beginning."""
        self.number = number
        self.action = action
        self.label = label

    def __lt__(self, other: "Event") -> bool:
        return (self.when, self.number) < (other.when, other.number)

    def cancel(self) -> None:
        """Prevent it. Idempotent."""
        self.action = None


class Loops(Protocol):
    """What a world needs of the loops of its hosts, of which a backend knows nothing (`loopcore.sim.loops`)."""

    def new(self, backend: Any = None, *, plugins: Any = None) -> Any:
        """Return a new loop for the host whose code runs."""

    def end(self, loop: Any, /) -> None:
        """Throw its tasks and transports away, and close it."""

    def silence(self) -> None:
        """Have the open loops report nothing any more."""

    def still_open(self) -> list[Any]:
        """Return the loops that are open, the oldest first."""

    def explain(self, loops: list[Any], /) -> str:
        """Return what the tasks of `loops` wait for, a line each."""


class World:
    """One simulation. Thread: one at a time, the one that runs."""

    def __init__(self, tape: Tape, loops: Loops) -> None:
        self.tape = tape
        self.loops = loops
        self.now_ns = 0
        self.log: list[LogEntry] = []
        self.descriptors = Descriptors()
        self.network = Network(self)
        self.threads = Threads(self)
        self.hosts: dict[str, Host] = {}
        self.host_numbers = count(1)
        self.errors: list[dict[str, Any]] = []
        """The contexts that the exception handlers of the loops received."""
        self.refused: list[str] = []
        """Messages of the NotSimulatedErrors that were raised."""
        self.invariants: list[tuple[str, Callable[[], object]]] = []
        """What must hold after every step, with its name."""
        self.reached: Counter[str] = Counter()
        """How often the program came to the places that it marks."""
        self._waits = 0
        self.steps = 0
        """Events that happened and ticks that were made."""
        self.limit_ns: int | None = None
        """The moment at which the simulation is given up, if it has one."""
        self._waits_for: Callable[[], bool] = bool
        """What the thread that runs the simulation waits for."""
        self._events: list[Event] = []
        """A heap of the events to come."""
        self._due: list[Event] = []
        """Events whose time has come, in the order of the heap."""
        self._numbers = count(1)
        self._flows = count(1)
        self._steps_at_this_time = 0
        self._spins = 0
        """Waits in a row that did not block and found nothing."""
        self.main = Host(self, "main")
        self.host = self.main
        """The host whose code runs."""
        self.verdict: Exception | None = None
        """Why the thread that runs the simulation was interrupted, if that was not the user."""
        self.is_open = True
        """Whether the simulation has not ended yet."""

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.now_ns / SECOND

    def at(self, when: float, action: Callable[[], object], label: str) -> Event:
        """Have `action` called at `when`, in seconds since the beginning, or now if that has passed."""
        return self.at_ns(round(when * SECOND), action, label)

    def at_ns(self, when: int, action: Callable[[], object], label: str) -> Event:
        """Have `action` called at `when`, in nanoseconds since the beginning, or now if that has passed."""
        event = Event(max(when, self.now_ns), next(self._numbers), action, label)
        heapq.heappush(self._events, event)
        return event

    def after(self, delay: float, action: Callable[[], object], label: str) -> Event:
        """Have `action` called in `delay` seconds."""
        return self.at_ns(self.now_ns + round(delay * SECOND), action, label)

    def deadline_after(self, seconds: float) -> float:
        """Return the true time, in seconds, at which `seconds` have passed on the clock of the host whose code runs."""
        return self.now + seconds / self.host.clock_rate

    def note(self, kind: str, text: str, peer: str = "", flow: int = 0, host: str = "") -> None:
        """Write a line of the log."""
        self.log.append(LogEntry(self.now, host or self.host.name, kind, text, peer, flow))

    def new_flow(self) -> int:
        """Return a number that joins a departure with its arrival."""
        return next(self._flows)

    # --- how it goes on -----------------------------------------------------------------------------

    def wait(self, ready: Callable[[], bool], deadline_ns: int | None) -> None:
        """Go on until `ready`, or until the deadline; without a deadline and with nothing left to happen: a deadlock.

        In a thread that the program has started, that thread waits. Raises DeadlockError and LivelockError.
        """
        if self.threads.running is not None:
            if not ready():
                self.threads.running.park(ready, deadline_ns)
            return
        self._collect()
        host = self.host
        self._check_invariants()
        try:
            while not self._goes_first(ready):
                self._waits_for = ready
                if not self._go_on(deadline_ns):
                    return
        finally:
            self.host = host

    def _goes_first(self, ready: Callable[[], bool]) -> bool:
        """Return whether the thread that runs the simulation goes on; threads that can go on too may come before it."""
        while ready():
            threads = self.threads.ready()
            if not threads:
                return True
            chosen = self.tape.pick(["main thread", *(thread.name for thread in threads)], "what comes next")
            if not chosen:
                return True
            threads[chosen - 1].step()
            self._count_step()
        return False

    def block(self, condition: Callable[[], bool], deadline: float | None = None) -> bool:
        """Go on, from code that blocks, until `condition` holds: True; or until `deadline` in seconds: False."""
        if condition():
            return True
        self.wait(condition, None if deadline is None else round(deadline * SECOND))
        return condition()

    def poll(self) -> None:
        """Let happen what is due, a step of each: for a wait that does not block."""
        if self.threads.running is not None:
            self.now_ns += _TICK
            self.threads.running.park(bool, self.now_ns)
            return
        self._collect()
        host = self.host
        self.pass_a_moment()
        self._check_invariants()
        try:
            for _ in range(len(self._events) + len(self._due) + len(self.hosts) + len(self.threads)):
                if not self._step():
                    break
                self._spins = 0
        finally:
            self.host = host

    def pass_a_moment(self) -> None:
        """Let the time of a tick pass; more of it, if the program has spun for long."""
        self.now_ns += _TICK << min(self._spins // 1000, 20)
        self._spins += 1
        self._steps_at_this_time = 0
        self._must_not_be_late(self.now_ns)

    def _collect(self) -> None:
        self._waits += 1
        if self._waits % collecting.EVERY == 0:
            gc.collect()

    def _go_on(self, deadline_ns: int | None) -> bool:
        """Let one thing happen; return False if nothing happens before the deadline, and it has come."""
        if self._step():
            return True
        moments = [host.wakes_at for host in self.hosts.values() if host.wakes_at is not None and host.can_step()]
        moments += self.threads.moments()
        self._drop_cancelled()
        if self._events:
            moments.append(self._events[0].when)
        if deadline_ns is not None:
            moments.append(deadline_ns)
        if not moments:
            self.verdict = self.verdict or DeadlockError(self._waiting_text())
            raise self.verdict
        moment = min(moments)
        self._must_not_be_late(moment)
        if moment > self.now_ns:
            self._spins = 0
            self.now_ns = moment
            self._steps_at_this_time = 0
        # What is due at the very moment of the deadline comes first, as in a wait that collects events and timers.
        if deadline_ns is None or moment < deadline_ns:
            return True
        return self._step()

    def _must_not_be_late(self, moment: int) -> None:
        if self.limit_ns is not None and moment > self.limit_ns:
            raise LivelockError(f"the program had not ended after {self.limit_ns / SECOND:g} simulated seconds")

    def _step(self) -> bool:
        """Let one of the things that are due happen; return whether there was one."""
        due, events = self._due, self._events
        while events and events[0].when <= self.now_ns:
            due.append(heapq.heappop(events))
        if any(event.action is None for event in due):  # cancelled
            due[:] = [event for event in due if event.action is not None]
        hosts = [host for host in self.hosts.values() if host.has_work()]
        actors: list[Host | SimThread] = [*hosts, *self.threads.ready()]
        if not due and not actors:
            return False
        chosen = 0
        if len(due) + len(actors) > 1:
            keys = [*(each.label for each in due), *(actor.name for actor in actors)]
            chosen = self.tape.pick(keys, "what comes next")
        if chosen < len(due):
            action = due.pop(chosen).action
            if action is not None:
                action()
        else:
            actors[chosen - len(due)].step()
        self._count_step()
        return True

    def _count_step(self) -> None:
        self.steps += 1
        self._steps_at_this_time += 1
        if self._steps_at_this_time > STEPS_WITHOUT_TIME:
            raise LivelockError(f"{STEPS_WITHOUT_TIME:,} steps were made at {self.now:g} s, and time did not pass")
        self._check_invariants()

    def _check_invariants(self) -> None:
        for name, invariant in self.invariants:
            try:
                invariant()
            except Exception as exc:
                exc.add_note(f"the invariant {name!r} does not hold")
                self.verdict = self.verdict or exc
                raise

    def _drop_cancelled(self) -> None:
        while self._events and self._events[0].action is None:
            heapq.heappop(self._events)

    def _waiting_text(self) -> str:
        crashed = {id(loop) for host in self.all_hosts() for loop in host.abandoned_loops()}
        loops = [loop for loop in self.loops.still_open() if id(loop) not in crashed]
        waits = "\n".join(filter(None, (self.loops.explain(loops), explain(self.threads.alive, self._waits_for))))
        return f"nothing is left to happen after {self.now:g} s, and the program waits\n{waits}"

    # --- hosts --------------------------------------------------------------------------------------

    def add_host(self, name: str, **settings: Any) -> Host:
        """Add a host. Raises ValueError if there is one of this name."""
        if name in self.hosts or name == self.main.name:
            raise ValueError(f"there is a host named {name!r} already")
        host = Host(self, name, **settings)
        self.hosts[name] = host
        return host

    def all_hosts(self) -> Iterable[Host]:
        """Return every host, the main one first."""
        return (self.main, *self.hosts.values())

    def close(self) -> None:
        """End the threads and the loops of all hosts, and forget what was about to happen."""
        self.loops.silence()
        try:
            self.threads.close()
            for host in self.all_hosts():
                host.close()
            self.threads.close()  # what `finally` blocks have started
        finally:
            self._events.clear()
            self._due.clear()
            self.is_open = False


def the_world() -> World:
    """Return the simulation that runs. Raises UsageError outside one."""
    world: World = current.world()
    return world
