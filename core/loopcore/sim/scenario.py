"""What a simulated program says to its simulation: hosts, links, faults, invariants, notes.

Every function works inside a simulation only, and raises UsageError outside one. A simulated program needs none of
them; a test that has several hosts and faults does. Thread: the one that runs.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from loopcore.errors import UsageError
from loopcore.sim.arguments import checked_main
from loopcore.sim.current import world

Main = Callable[[], Coroutine[Any, Any, Any]]


class Host(Protocol):
    """A host of the simulation, with one process and its loop."""

    name: str
    addresses: tuple[str, ...]
    """Its IPv4 and its IPv6 address."""
    clock_offset: float
    """Seconds by which its clock is ahead of true time."""
    clock_rate: float
    """Seconds that its clocks count in a true second."""
    is_on: bool

    def crash(self) -> None:
        """End its process at once: no `finally` runs, its kernel closes its sockets, files keep what was written."""

    def power_cut(self) -> None:
        """Take its power: peers learn nothing, and data that was not synced to its disk may be lost or torn."""

    def restart(self, main: Main | None = None) -> None:
        """Run its program, or another, from the beginning, on the unchanged disk. Ends the process if it runs."""

    def pause(self) -> None:
        """Let its process stand still, as SIGSTOP does, until `go_on`."""

    def go_on(self) -> None:
        """End a pause."""


def host(name: str, main: Main | None = None, *, clock_offset: float = 0.0, clock_rate: float = 1.0) -> Host:
    """Add a host that runs `main()`; others find it under its name, as in `open_connection("db", 5432)`.

    What `main` raises ends the simulation. The test itself runs on the host "main". Raises ValueError for a name that
    is taken.
    """
    if main is not None:
        checked_main(main, f"host({name!r}, main)")
    if not clock_rate > 0.0:
        raise UsageError(f"clock_rate is the seconds of its clocks in a true second, above 0, not {clock_rate!r}")
    made: Any = world().add_host(name, clock_offset=clock_offset, clock_rate=clock_rate)
    if main is not None:
        made.start(main)
    result: Host = made
    return result


def this_host() -> Host:
    """Return the host whose program calls."""
    found: Host = world().host
    return found


def link(
    source: str,
    target: str,
    *,
    delays: Sequence[float] | None = None,
    loss: float | None = None,
    duplicates: float | None = None,
    bandwidth: float | None = None,
    both_ways: bool = True,
) -> None:
    """Set how packets go from one host to another, by name; None leaves a setting unchanged.

    `delays`: seconds that a packet may take, the usual value first; the tape chooses. `loss`: the probability that a
    packet is lost; TCP sends it again, later. `duplicates`: the probability that a datagram arrives twice. Both hold in
    every random run but that of seed 0, which loses nothing; the search "bounded" tries both answers for each packet.
    `bandwidth`: bytes a second. Without a call a packet takes 1 ms, or 0.1, 10 or 100 ms.
    """
    if delays is not None and (not delays or not all(isinstance(each, (int, float)) and each >= 0 for each in delays)):
        raise UsageError(f"delays are seconds, one or more, none below 0: {delays!r}")
    for share in (loss, duplicates):
        if share is not None and not (isinstance(share, (int, float)) and 0.0 <= share < 1.0):
            raise UsageError(f"a share is at least 0 and below 1, this is {share!r}")
    if bandwidth is not None and not bandwidth > 0.0:
        raise UsageError(f"bandwidth is in bytes a second, above 0, or None to leave it, not {bandwidth!r}")
    network = world().network
    one, other = _named(source), _named(target)
    for way in [(one, other), (other, one)] if both_ways else [(one, other)]:
        wanted = network.link(*way)
        wanted.delays = wanted.delays if delays is None else tuple(delays)
        wanted.loss = wanted.loss if loss is None else loss
        wanted.duplicates = wanted.duplicates if duplicates is None else duplicates
        wanted.bandwidth = wanted.bandwidth if bandwidth is None else bandwidth


def partition(*groups: Iterable[str]) -> None:
    """Cut every link between hosts of different groups, until `heal`. Connections live on: their data waits.

    TCP gives a connection up whose data has waited for 924 s, and a connect after 127 s, as on Linux.
    """
    if any(isinstance(group, str) for group in groups):
        raise UsageError('a group is a list of names: partition(["a"], ["b", "c"])')
    sides = [[_named(name) for name in group] for group in groups]
    if len(sides) < 2:
        raise UsageError('a partition has two groups of names or more: partition(["a"], ["b", "c"])')
    world().note("partition", " | ".join(" ".join(each.name for each in side) for side in sides))
    for side in sides:
        for others in sides:
            if others is not side:
                for one in side:
                    for other in others:
                        world().network.cut(one, other)


def cut(source: str, target: str) -> None:
    """Let nothing from `source` arrive at `target`, until `heal`; the other direction is unchanged."""
    world().note("partition", f"nothing from {source} arrives at {target}")
    world().network.cut(_named(source), _named(target))


def heal() -> None:
    """End every partition and cut. TCP sends again what they held up."""
    here = world()
    here.note("heal", "every link works")
    hosts = [*here.all_hosts()]
    for one in hosts:
        for other in hosts:
            here.network.link(one, other).is_cut = False
    here.network.release_held()


def fail_name(name: str, error: OSError | None) -> None:
    """Let the resolution of `name` fail with `error`, a `socket.gaierror` as a rule; with None it works again."""
    failures = world().network.name_failures
    if error is not None and not isinstance(error, OSError):
        raise UsageError(f'give the error that its resolution raises, as socket.gaierror(-2, "unknown"), not {error!r}')
    if error is None:
        failures.pop(name, None)
    else:
        failures[name] = error


def always(invariant: Callable[[], object], name: str = "") -> None:
    """Have `invariant()` called after every step of the simulation; what it raises ends it. It must not wait."""
    if inspect.iscoroutinefunction(invariant):
        raise UsageError(f"an invariant is asked and cannot wait: {invariant!r} is a coroutine function")
    world().invariants.append((name or getattr(invariant, "__name__", "invariant"), invariant))


def reached(name: str) -> None:
    """Count that the program came here. `Search.reached` and the command say in how many runs it did."""
    world().reached[name] += 1


def note(text: str) -> None:
    """Write a line into the log of the simulation."""
    world().note("note", text)


def now() -> float:
    """Return the true simulated time: seconds since the beginning, whatever the clocks of the hosts show."""
    seconds: float = world().now
    return seconds


def choose(n: int, label: str) -> int:
    """Let the tape choose from 0 to n - 1; 0 is the usual case. The search tries the others."""
    if not isinstance(n, int) or n < 1:
        raise UsageError(f"choose() takes the number of answers, 1 or more, not {n!r}")
    value: int = world().tape.choose(n, label)
    return value


def _named(name: str) -> Any:
    for each in world().all_hosts():
        if each.name == name:
            return each
    raise UsageError(
        f"no host is named {name!r}; there are {', '.join(sorted(each.name for each in world().all_hosts()))}"
    )
