"""Datagram sockets: udp(7), and unix(7) of the type SOCK_DGRAM.

States, errors and readiness are those of Linux (net/ipv4/udp.c, net/unix/af_unix.c, net/core/datagram.c).
"""

import errno
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore_backends.sim.descriptors import error
from loopcore_backends.sim.network import BROADCAST
from loopcore_backends.sim.socket_base import (
    BOTH,
    RECEIVING,
    SENDING,
    InternetSocket,
    Socket,
    any_address,
    full_address,
    is_any,
    mapped,
    path_of,
    shutdown_bits,
)
from loopcore_backends.sim.streams import show_bytes
from loopcore_backends.sim.unix import NamedSocket, find_name, forget_name

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host

BUFFER: Final = 212_992
_LARGEST: Final = 65_507
_LONGEST_QUEUE: Final = 512
"""net.unix.max_dgram_qlen, as systemd sets it."""


class DatagramSocket(Socket):
    """A datagram socket, connected to a peer or not."""

    type = socket.SOCK_DGRAM
    buffer = BUFFER
    state = "datagram"

    def __init__(self, host: "Host", family: int, proto: int = 0) -> None:
        super().__init__(host, family, proto)
        self._inbox: deque[tuple[bytes, Any]] = deque()
        self._size = 0

    def read(self, size: int, *, peek: bool = False) -> bytes:
        return self.receive(size, peek=peek)[0][:size]

    def receive(self, size: int, *, peek: bool = False) -> tuple[bytes, Any]:
        """recvfrom(2): return a datagram, whole even where it is longer than `size`, and where it came from."""
        self._raise_pending()
        if not self._inbox:
            raise error(errno.EAGAIN)
        data, address = self._inbox[0]
        if not peek:
            self._inbox.popleft()
            self._size -= len(data)
            self._has_room()
        return data, address

    def _has_room(self) -> None:
        """A datagram was taken out of the inbox."""

    def take_in(self, data: bytes, origin: Any) -> bool:
        """Put a datagram into the inbox; return False if there is no room for it."""
        if self._size + len(data) > self._buffer(socket.SO_RCVBUF) or len(self._inbox) > _LONGEST_QUEUE:
            return False
        self._inbox.append((data, origin))
        self._size += len(data)
        self.changed()
        return True

    def _check_sending(self) -> None:
        self._raise_pending()
        if self.shut & SENDING:
            raise error(errno.EPIPE)

    def poll(self) -> int:
        bits = WRITE if self._is_writable() else 0
        if self._inbox or self.shut & RECEIVING:
            bits |= READ
        if self.shut == BOTH:
            bits |= HANGUP
        if self.error:
            bits |= ERROR
        return bits

    def _is_writable(self) -> bool:
        return True

    def shutdown(self, how: int) -> None:
        self.shut |= shutdown_bits(how)
        self.changed()


class UdpSocket(InternetSocket, DatagramSocket):
    """A socket of AF_INET or AF_INET6 and SOCK_DGRAM."""

    is_exclusive = False

    def bind(self, address: Any) -> None:
        self._bind(address)

    def connect(self, address: Any) -> None:
        ip = str(address[0])
        target = self.host.world.network.host_at(ip, self.host)
        ip = self._concrete(ip)
        own = self._source_for(ip, target)
        if not self._is_bound:
            self.bind((own, 0))
        elif is_any(self.local[0]):
            self.local = full_address(self.family, own, self.local[1])
        self.remote = full_address(self.family, ip, address[1])

    def peer_name(self) -> Any:
        if self.remote is None:
            raise error(errno.ENOTCONN)
        return self.remote

    def shutdown(self, how: int) -> None:
        super().shutdown(how)  # Linux marks the socket, and reports the error
        if self.remote is None:
            raise error(errno.ENOTCONN)

    def write(self, data: "bytes | memoryview") -> int:
        if self.remote is None:
            raise error(errno.EDESTADDRREQ)
        return self.send_to(data, self.remote)

    def send_to(self, data: "bytes | memoryview", address: Any) -> int:
        """sendto(2). No error says that a datagram was lost."""
        if not address[1]:
            raise error(errno.EINVAL)
        if len(data) > _LARGEST:
            raise error(errno.EMSGSIZE)
        if address[0] == BROADCAST and not self.options.get((socket.SOL_SOCKET, socket.SO_BROADCAST)):
            raise error(errno.EACCES)
        payload = bytes(data)
        world = self.host.world
        network = world.network
        target = network.host_at(str(address[0]), self.host)
        self._check_sending()
        if not self._is_bound:
            self.bind((any_address(self.family), 0))
        ip = self._concrete(str(address[0]))
        origin = self._origin(ip, target)
        flow = world.new_flow()
        label = f"datagram {show_bytes(payload)} from {self.host.name} to {target.name}"
        world.note("send", f"datagram {show_bytes(payload)}", target.name, flow, self.host.name)
        copies = 2 if network.is_doubled(self.host, target, label) else 1
        for _ in range(copies):
            delay = network.delay(self.host, target, len(payload), label, retransmits=False)
            if delay < 0.0:
                continue

            def arrive() -> None:
                self._deliver(target, ip, address[1], payload, origin, flow)

            if delay:
                world.after(delay, arrive, label)
            else:
                arrive()
        return len(payload)

    def _origin(self, ip: str, target: "Host") -> Any:
        if not is_any(self.local[0]):
            return self.local
        return full_address(self.family, self._source_for(ip, target), self.local[1])

    def _deliver(self, target: "Host", ip: str, port: int, data: bytes, origin: Any, flow: int) -> None:
        network = self.host.world.network
        if network.is_cut(self.host, target):
            return
        found = target.ports.find(self.family, self.type, ip, port, lambda sock: sock.hears(origin))
        if not found and self.family == socket.AF_INET:
            ip, origin = f"::ffff:{ip}", mapped(origin)
            found = target.ports.find(socket.AF_INET6, self.type, ip, port, lambda sock: sock.hears_both(origin))
        if not found:
            if self.remote is not None and self.references and not network.is_cut(target, self.host):
                self.error = errno.ECONNREFUSED  # ICMP: port unreachable
                self.changed()
            return
        found.sort(key=lambda sock: sock.remote is None)  # one that is connected to the sender comes first
        if found[0].take_in(data, origin):
            self.host.world.note("arrive", f"datagram {show_bytes(data)}", self.host.name, flow, target.name)

    def hears(self, origin: Any) -> bool:
        """Return whether this socket gets datagrams from `origin`."""
        return self.remote is None or tuple(self.remote[:2]) == tuple(origin[:2])

    def hears_both(self, origin: Any) -> bool:
        """Return whether this socket of IPv6 gets datagrams from `origin`, an address of IPv4."""
        return self.hears(origin) and not self.options.get((socket.IPPROTO_IPV6, socket.IPV6_V6ONLY))

    def close(self) -> None:
        self.host.ports.unbind(self)


class UnixDatagramSocket(NamedSocket, DatagramSocket):
    """A socket of AF_UNIX and SOCK_DGRAM."""

    def __init__(self, host: "Host", family: int, proto: int = 0) -> None:
        super().__init__(host, family, proto)
        self.peer: UnixDatagramSocket | None = None

    def connect(self, address: Any) -> None:
        other = find_name(self, path_of(address))
        self._check_peer(other)
        self.peer = other
        self.remote = other.local
        self.changed()

    def write(self, data: "bytes | memoryview") -> int:
        if self.peer is None:
            raise error(errno.ENOTCONN)
        return self._hand_over(self.peer, bytes(data))

    def send_to(self, data: "bytes | memoryview", address: Any) -> int:
        return self._hand_over(find_name(self, path_of(address)), bytes(data))

    def _hand_over(self, other: "UnixDatagramSocket", data: bytes) -> int:
        if len(data) > self._buffer(socket.SO_SNDBUF) - 32:
            raise error(errno.EMSGSIZE)
        self._check_sending()
        if not other.references:
            if other is self.peer:
                self.peer = None
            raise error(errno.ECONNREFUSED)
        self._check_peer(other)
        if other.shut & RECEIVING:
            raise error(errno.EPIPE)
        if not other.take_in(data, self.local or None):
            self.host.full_datagram_sockets.append(self)
            raise error(errno.EAGAIN)
        return len(data)

    def _check_peer(self, other: "UnixDatagramSocket") -> None:
        if other.peer is not None and other.peer is not self:
            raise error(errno.EPERM)

    def _has_room(self) -> None:
        waiting, self.host.full_datagram_sockets = self.host.full_datagram_sockets, []
        for sender in waiting:
            sender.changed()

    def _is_writable(self) -> bool:
        peer = self.peer
        if peer is None or not peer.references:
            return True
        is_writable = peer._size * 4 <= BUFFER and len(peer._inbox) <= _LONGEST_QUEUE
        if not is_writable and self not in self.host.full_datagram_sockets:
            self.host.full_datagram_sockets.append(self)
        return is_writable

    def close(self) -> None:
        forget_name(self)
        self._inbox.clear()
        self._size = 0
        self._has_room()
