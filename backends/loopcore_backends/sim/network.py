"""The network: links between hosts, addresses, ports, and wires, which carry what a connection sends in one direction.

A wire keeps the order of what it carries and loses nothing: loss and a partition make a stream late, as TCP does, until
the sender gives up. Datagrams are lost, doubled and overtaken.
"""

import errno
from collections import deque
from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from loopcore_backends.sim.descriptors import error

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host
    from loopcore_backends.sim.world import Event, World

GIVES_UP_AFTER: Final = 924.0
"""Seconds after which TCP gives a connection up whose peer does not answer (tcp_retries2 of Linux)."""
RETRANSMITS_AFTER: Final = 0.2
CONNECT_GIVES_UP_AFTER: Final = 127.0
"""Seconds after which a connect ends with ETIMEDOUT: it is repeated after 1, 2, 4, 8, 16 and 32 s (tcp_syn_retries)."""
LOOPBACK_DELAYS: Final = (0.0, 0.0001, 0.005, 0.05)
LINK_DELAYS: Final = (0.001, 0.0001, 0.01, 0.1)
_EPHEMERAL: Final = 32_768
_LAST_PORT: Final = 60_999


class Link:
    """One direction between two hosts."""

    def __init__(self, delays: tuple[float, ...]) -> None:
        self.delays = delays
        """Seconds that something may take; the first is the usual one."""
        self.loss = 0.0
        """The share of packets that are lost."""
        self.duplicates = 0.0
        """The share of datagrams that arrive twice."""
        self.bandwidth: float | None = None
        """Bytes a second; None for no limit."""
        self.is_cut = False
        self.free_at = 0.0


class Wire:
    """What one end of a connection sends to the other, in order."""

    def __init__(self, network: "Network", source: "Host", target: "Host") -> None:
        self._network = network
        self._world = network.world
        self.source = source
        self.target = target
        self._last_arrival = 0.0
        self._queue: deque[tuple[Callable[[], object], str]] = deque()
        """What was sent and has not arrived, in order."""
        self._held = 0
        """How many of them, from the first on, wait for the end of a partition."""
        self._giving_up: Event | None = None
        self.on_give_up: Callable[[], object] | None = None

    def send(self, size: int, label: str, arrive: Callable[[], object]) -> None:
        """Have `arrive` called when this, of `size` bytes, has come to the other end."""
        if not self._schedule(size, label) and not self._queue:
            arrive()
        else:
            self._queue.append((arrive, label))

    def _schedule(self, size: int, label: str) -> bool:
        """Let the next of the queue arrive after a delay; return False if it can be there at once."""
        delay = self._network.delay(self.source, self.target, size, label, retransmits=True)
        if not delay and not self._queue and not self._network.is_cut(self.source, self.target):
            return False
        self._last_arrival = max(self._last_arrival, self._world.now + delay)
        self._world.at(self._last_arrival, self._arrive, label)
        return True

    def _arrive(self) -> None:
        if not self._queue:  # the connection was given up
            return
        if self._held or self._network.is_cut(self.source, self.target):
            if not self._held:
                self._network.held.append(self)
                self._giving_up = self._world.after(GIVES_UP_AFTER, self._give_up, "a connection is given up")
            self._held += 1
            return
        # The head of the queue, whichever event comes first: nothing overtakes on a stream.
        self._queue.popleft()[0]()

    def release(self) -> None:
        """The partition is over: TCP sends again what has not arrived."""
        held, self._held = self._held, 0
        if self._giving_up is not None:
            self._giving_up.cancel()
        for _, label in [*self._queue][:held]:
            self._schedule(0, label)

    def _give_up(self) -> None:
        self._queue.clear()
        self._held = 0
        self._network.held.remove(self)
        if self.on_give_up is not None:
            self.on_give_up()


class Network:
    """Every link, address and name of a simulation."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self._links: dict[tuple[str, str], Link] = {}
        self.default_delays = LINK_DELAYS
        self.held: list[Wire] = []
        self.name_failures: dict[str, OSError] = {}
        """Names whose resolution fails, with the error."""

    def link(self, source: "Host", target: "Host") -> Link:
        """Return the link from `source` to `target`."""
        key = source.name, target.name
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link(LOOPBACK_DELAYS if source is target else self.default_delays)
        return link

    def is_cut(self, source: "Host", target: "Host") -> bool:
        """Return whether nothing arrives: a partition, or a host without power."""
        return not target.is_on or self.link(source, target).is_cut

    def delay(self, source: "Host", target: "Host", size: int, label: str, *, retransmits: bool) -> float:
        """Draw how long something takes; for a datagram a negative number says that it is lost."""
        link = self.link(source, target)
        choose = self.world.tape.choose
        delay = link.delays[choose(len(link.delays), f"delay: {label}")]
        if link.bandwidth is not None:
            begin = max(self.world.now, link.free_at)
            link.free_at = begin + size / link.bandwidth
            delay += link.free_at - self.world.now
        if link.loss:
            again = RETRANSMITS_AFTER
            while self._is_drawn(link.loss, f"loss: {label}"):
                if not retransmits:
                    return -1.0
                delay += again
                again *= 2
        return delay

    def is_doubled(self, source: "Host", target: "Host", label: str) -> bool:
        """Draw whether a datagram arrives twice."""
        share = self.link(source, target).duplicates
        return bool(share) and self._is_drawn(share, f"twice: {label}")

    def _is_drawn(self, share: float, label: str) -> bool:
        n = max(2, round(1 / share))
        return self.world.tape.choose(n, label) == n - 1

    def cut(self, source: "Host", target: "Host") -> None:
        """Let nothing arrive from `source` at `target`."""
        self.link(source, target).is_cut = True

    def heal(self, source: "Host", target: "Host") -> None:
        """Let things arrive again; what was held up is sent once more."""
        self.link(source, target).is_cut = False
        self.release_held()

    def release_held(self) -> None:
        """Send again what can arrive now."""
        held, self.held = self.held, []
        for wire in held:
            if self.is_cut(wire.source, wire.target):
                self.held.append(wire)
            else:
                wire.release()

    # --- addresses and names ------------------------------------------------------------------------

    def host_at(self, address: str, asking: "Host") -> "Host":
        """Return the host that has `address`, as seen by `asking`. Raises OSError(ENETUNREACH)."""
        if is_own(address):
            return asking
        for host in self.world.all_hosts():
            if address in host.addresses:
                return host
        raise error(errno.ENETUNREACH)

    def addresses_of(self, name: str, asking: "Host") -> list[str] | None:
        """Return the addresses of a name or of a numeric address, None if it is unknown. Raises what is to fail."""
        failure = self.name_failures.get(name)
        if failure is not None:
            raise failure
        try:
            return [str(ip_address(name.partition("%")[0]))]
        except ValueError:
            pass
        if name in ("localhost", "localhost.localdomain", "ip6-localhost"):
            return ["127.0.0.1", "::1"]
        if name in ("", asking.name):
            return list(asking.addresses)
        for host in self.world.all_hosts():
            if name in host.names:
                return list(host.addresses)
        return None


def is_own(address: str) -> bool:
    """Return whether this address leads back to the host that uses it: loopback, or "any"."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return parsed.is_loopback or parsed.is_unspecified


class Ports:
    """The bound sockets of one host, by family and protocol."""

    def __init__(self) -> None:
        self._bound: dict[tuple[Any, Any, int], list[Any]] = {}
        self._next = _EPHEMERAL

    def bind(self, sock: Any, address: str, port: int) -> int:
        """Bind `sock`; return the port, a free one for 0. Raises OSError(EADDRINUSE)."""
        if not port:
            port = self._free_port(sock)
        key = sock.family, sock.type, port
        for other in self._bound.get(key, ()):
            overlaps = is_any(address) or is_any(other.local[0]) or other.local[0] == address
            shares = sock.shares_port and other.shares_port
            if overlaps and not shares:
                raise error(errno.EADDRINUSE)
        self._bound.setdefault(key, []).append(sock)
        return port

    def unbind(self, sock: Any) -> None:
        """Forget `sock`. Idempotent."""
        for key, bound in [*self._bound.items()]:
            if sock in bound:
                bound.remove(sock)
                if not bound:
                    del self._bound[key]

    def find(self, family: Any, kind: Any, address: str, port: int, wanted: Callable[[Any], bool]) -> list[Any]:
        """Return the sockets that get what comes for this address: those bound to it before those bound to any."""
        bound = [sock for sock in self._bound.get((family, kind, port), ()) if wanted(sock)]
        exact = [sock for sock in bound if sock.local[0] == address]
        return exact or [sock for sock in bound if is_any(sock.local[0])]

    def clear(self) -> None:
        """Forget everything: the host has no power."""
        self._bound.clear()

    def _free_port(self, sock: Any) -> int:
        for _ in range(_LAST_PORT - _EPHEMERAL):
            port = self._next
            self._next = port + 1 if port < _LAST_PORT else _EPHEMERAL
            if (sock.family, sock.type, port) not in self._bound:
                return port
        raise error(errno.EADDRINUSE)


def is_any(address: str) -> bool:
    """Return whether this is the address that stands for all of a host's."""
    return address in ("", "0.0.0.0", "::")
