"""The network: links between hosts, addresses, ports, and wires, which carry what a connection sends in one direction.

A wire keeps the order of what it carries and loses nothing: loss and a partition make a stream late, as TCP does, until
the sender gives up. Datagrams are lost, doubled and overtaken.
"""

import errno
import socket
from collections import deque
from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from loopcore_backends.sim.descriptors import error
from loopcore_backends.sim.socket_base import is_any

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host
    from loopcore_backends.sim.world import Event, World

GIVES_UP_AFTER: Final = 924.0
"""Seconds after which TCP gives a connection up whose peer does not answer (tcp_retries2 of Linux)."""
RETRANSMITS_AFTER: Final = 0.2
RETRANSMITS_AT_LEAST_EVERY: Final = 120.0
"""TCP_RTO_MAX of Linux."""
SYN_ACK_RETRIES: Final = 5
"""A listener whose queue is full answers a connect five times more, after 1, 2, 4 ... seconds, then forgets it."""
SYN_RETRIES: Final = 6
"""A connect is repeated so often, after 1, 2, 4 ... seconds: ETIMEDOUT after 127 s."""
LOOPBACK_DELAYS: Final = (0.0, 0.0001, 0.005, 0.05)
LINK_DELAYS: Final = (0.001, 0.0001, 0.01, 0.1)
SPLIT_PAUSE: Final = 0.0001
"""Seconds between the packets of one write: the receiver runs in between."""
TIME_WAIT: Final = 60_000_000_000
"""Nanoseconds that a port stays busy whose connection was closed from this side."""
BROADCAST: Final = "255.255.255.255"
_EPHEMERAL: Final = 32_768
_LAST_PORT: Final = 60_999

_Key = tuple[Any, Any, int]


class Link:
    """One direction between two hosts."""

    def __init__(self, delays: tuple[float, ...]) -> None:
        self.delays = delays
        self.loss = 0.0
        """The probability with which a packet is lost."""
        self.duplicates = 0.0
        """The probability with which a datagram arrives twice."""
        self.bandwidth: float | None = None
        """Bytes a second; None for no limit."""
        self.is_cut = False
        self.free_at = 0.0

    @property
    def delays(self) -> tuple[float, ...]:
        """Seconds that something may take; the first is the usual one."""
        return self._delays

    @delays.setter
    def delays(self, delays: tuple[float, ...]) -> None:
        self._delays = delays
        self.answers = ", ".join(f"{delay * 1000:g} ms" for delay in delays)
        """The same for people, as the answers in the label of a choice."""


class Wire:
    """What one end of a connection sends to the other, in order."""

    def __init__(self, network: "Network", source: "Host", target: "Host") -> None:
        self._network = network
        self._world = network.world
        self.source = source
        self.target = target
        self._last_arrival = 0.0
        self._under_way: deque[tuple[float, Callable[[], object], str]] = deque()
        self._is_held = False
        self._end: Event | None = None
        """When the connection is given up, while something is held."""
        self._boots = source.boots
        self.on_give_up: Callable[[], object] | None = None
        self.gives_up_after: Callable[[], float] = lambda: GIVES_UP_AFTER
        """Seconds, asked when something is first held up."""

    def send(
        self, size: int, label: str, arrive: Callable[[], object], delay: float | None = None, pause: float = 0.0
    ) -> None:
        """Have `arrive` called when this, of `size` bytes, has come to the other end: after `delay`, or one drawn.

        It comes at least `pause` seconds after what was sent before it.
        """
        if delay is None:
            delay = self._network.delay(self.source, self.target, size, label, retransmits=True)
        if not delay and not pause and not self._under_way and not self._network.is_cut(self.source, self.target):
            arrive()
            return
        self._last_arrival = max(self._last_arrival, self._world.now + delay) + pause
        self._under_way.append((self._last_arrival, arrive, label))
        if len(self._under_way) == 1:
            self._await_first()

    def _await_first(self) -> None:
        when, _, label = self._under_way[0]
        self._world.at(when, self._arrive, label)

    def _arrive(self) -> None:
        if self._is_held:
            return
        if self._network.is_cut(self.source, self.target):
            self._is_held = True
            self._network.held.append(self)
            self._end = self._world.after(self.gives_up_after(), self._give_up, "give up a connection")
            return
        _, arrive, _ = self._under_way.popleft()
        arrive()
        if self._under_way:
            self._await_first()

    def release(self) -> None:
        """The partition is over: TCP sends again what has not arrived."""
        self._is_held = False
        if self._end is not None:
            self._end.cancel()
        if self.source.boots != self._boots:  # it has lost its power since, and with it what it would send again
            self._under_way.clear()
        if self._under_way:
            self._await_first()

    def _give_up(self) -> None:
        if self._is_held:
            self._under_way.clear()
            if self.on_give_up is not None:
                self.on_give_up()


class Network:
    """Every link, address and name of a simulation."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self._links: dict[tuple[str, str], Link] = {}
        self.held: list[Wire] = []
        self.name_failures: dict[str, OSError] = {}
        """Names whose resolution fails, with the error."""

    def link(self, source: "Host", target: "Host") -> Link:
        """Return the link from `source` to `target`."""
        key = source.name, target.name
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link(LOOPBACK_DELAYS if source is target else LINK_DELAYS)
        return link

    def is_cut(self, source: "Host", target: "Host") -> bool:
        """Return whether nothing arrives: a partition, or a host without power."""
        return not target.is_on or self.link(source, target).is_cut

    def delay(self, source: "Host", target: "Host", size: int, label: str, *, retransmits: bool) -> float:
        """Draw how long something takes; for a datagram a negative number says that it is lost."""
        link = self.link(source, target)
        choose = self.world.tape.choose
        delay = link.delays[choose(len(link.delays), f"delay: {label}: {link.answers}")]
        if link.bandwidth is not None:
            begin = max(self.world.now, link.free_at)
            link.free_at = begin + size / link.bandwidth
            delay += link.free_at - self.world.now
        if link.loss:
            again = RETRANSMITS_AFTER
            while self.world.tape.happens(link.loss, f"loss: {label}"):
                if not retransmits:
                    return -1.0
                delay += again
                again = min(2 * again, RETRANSMITS_AT_LEAST_EVERY)
        return delay

    def is_doubled(self, source: "Host", target: "Host", label: str) -> bool:
        """Draw whether a datagram arrives twice."""
        share = self.link(source, target).duplicates
        return bool(share) and self.world.tape.happens(share, f"twice: {label}")

    def cut(self, source: "Host", target: "Host") -> None:
        """Let nothing arrive from `source` at `target`."""
        self.link(source, target).is_cut = True

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
            return [_shown(ip_address(name.partition("%")[0]))]
        except ValueError:
            pass
        if name in ("localhost", "localhost.localdomain", "ip6-localhost"):
            return ["127.0.0.1", "::1"]
        if name in ("", asking.name):
            return list(asking.addresses)
        for host in self.world.all_hosts():
            if name == host.name:
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
        self._bound: dict[_Key, list[Any]] = {}
        self._connected: dict[_Key, dict[Any, None]] = {}
        """What a listening socket has accepted: it keeps the port busy."""
        self._lingering: dict[_Key, tuple[str, bool, int]] = {}
        """TIME_WAIT: address, SO_REUSEADDR, and until when, in nanoseconds."""
        self._next = _EPHEMERAL

    def bind(self, sock: Any, address: str, port: int) -> int:
        """Bind `sock`; return the port, a free one for 0. Raises OSError(EADDRINUSE)."""
        if port:
            self.check(sock, address, port)
        else:
            port = self._free_port(sock)
        self._bound.setdefault((sock.family, sock.type, port), []).append(sock)
        return port

    def check(self, sock: Any, address: str, port: int) -> None:
        """Raise OSError(EADDRINUSE) if another socket does not let `sock` have the address as well."""
        for family in (socket.AF_INET, socket.AF_INET6):
            key = family, sock.type, port
            for other in (*self._bound.get(key, ()), *self._connected.get(key, ())):
                if other is sock or not _overlap(sock, address, other, other.local[0]):
                    continue
                if sock.reuses_port and other.reuses_port:
                    continue
                if not (sock.reuses_address and other.reuses_address) or other.is_exclusive:
                    raise error(errno.EADDRINUSE)
        lingering = self._lingering.get((sock.family, sock.type, port))
        if lingering is not None:
            old, reuses_address, until = lingering
            if until <= sock.host.world.now_ns:
                del self._lingering[sock.family, sock.type, port]
            elif (is_any(address) or address == old) and not (sock.reuses_address and reuses_address):
                raise error(errno.EADDRINUSE)

    def listening(self) -> list[tuple[str, int]]:
        """Return where TCP sockets listen: address and port."""
        return [
            (sock.local[0], port)
            for (_, kind, port), socks in self._bound.items()
            for sock in socks
            if kind == socket.SOCK_STREAM and sock.state == "listening"
        ]

    def adopt(self, sock: Any) -> None:
        """Note that `sock`, which was accepted, uses its port."""
        self._connected.setdefault(_key(sock), {})[sock] = None

    def unbind(self, sock: Any, *, lingers: bool = False) -> None:
        """Forget `sock`; `lingers` if it has closed its connection first. Idempotent."""
        key = _key(sock)
        bound = self._bound.get(key, [])
        connected = self._connected.get(key, {})
        if sock in bound:
            bound.remove(sock)
            if not bound:
                del self._bound[key]
        elif sock in connected:
            del connected[sock]
            if not connected:
                del self._connected[key]
        if lingers:
            until = sock.host.world.now_ns + TIME_WAIT
            self._lingering[key] = sock.local[0], sock.reuses_address, until

    def find(self, family: Any, kind: Any, address: str, port: int, wanted: Callable[[Any], bool]) -> list[Any]:
        """Return the sockets that get what comes for this address: those bound to it before those bound to any."""
        bound = [sock for sock in self._bound.get((family, kind, port), ()) if wanted(sock)]
        exact = [sock for sock in bound if sock.local[0] == address]
        return exact or [sock for sock in bound if is_any(sock.local[0])]

    def clear(self) -> None:
        """Forget everything: the host has no power."""
        self._bound.clear()
        self._connected.clear()
        self._lingering.clear()

    def _free_port(self, sock: Any) -> int:
        for _ in range(_LAST_PORT - _EPHEMERAL):
            port = self._next
            self._next = port + 1 if port < _LAST_PORT else _EPHEMERAL
            keys = [(family, sock.type, port) for family in (socket.AF_INET, socket.AF_INET6)]
            if not any(key in self._bound or key in self._connected for key in keys):
                return port
        raise error(errno.EADDRINUSE)


def _key(sock: Any) -> _Key:
    return sock.family, sock.type, sock.local[1]


def _overlap(one: Any, address: str, other: Any, other_address: str) -> bool:
    if one.family == other.family:
        return is_any(address) or is_any(other_address) or address == other_address
    new_is_6 = one.family == socket.AF_INET6
    six, its_address, four_address = (one, address, other_address) if new_is_6 else (other, other_address, address)
    if six.options.get((socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)):
        return False
    return is_any(its_address) or its_address in (f"::ffff:{four_address}", "::ffff:0.0.0.0")


def _shown(address: Any) -> str:
    """Return an address as inet_ntop(3) shows it."""
    four = getattr(address, "ipv4_mapped", None)
    return f"::ffff:{four}" if four is not None else str(address)
