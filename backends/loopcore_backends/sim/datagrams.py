"""Datagram sockets: udp(7), and unix(7) of the type SOCK_DGRAM."""

import errno
import socket
from collections import deque
from typing import Any, Final

from loopcore.ports.interest import ERROR, READ, WRITE
from loopcore_backends.sim.descriptors import Description, error
from loopcore_backends.sim.network import is_any
from loopcore_backends.sim.streams import any_address, empty_address, full_address, path_of, show_bytes

_BUFFER: Final = 212_992
_LARGEST: Final = 65_507


class DatagramSocket(Description):
    """A datagram socket, connected to a peer or not."""

    kind = "socket"
    type = socket.SOCK_DGRAM
    state = "datagram"

    def __init__(self, host: Any, family: int, proto: int = 0) -> None:
        super().__init__(host)
        self.family = family
        self.proto = proto
        self.options: dict[tuple[int, int], Any] = {}
        self.local: Any = empty_address(family)
        self.remote: Any = None
        self.error = 0
        self.peer: DatagramSocket | None = None
        """The other end of a socketpair."""
        self._is_bound = False
        self._inbox: deque[tuple[bytes, Any]] = deque()
        self._size = 0

    @property
    def shares_port(self) -> bool:
        """Whether another socket may be bound to the same port (SO_REUSEADDR, SO_REUSEPORT)."""
        options = self.options
        return bool(
            options.get((socket.SOL_SOCKET, socket.SO_REUSEPORT))
            or options.get((socket.SOL_SOCKET, socket.SO_REUSEADDR))
        )

    def bind(self, address: Any) -> None:
        """bind(2)."""
        if self._is_bound:
            raise error(errno.EINVAL)
        if self.family == socket.AF_UNIX:
            path = path_of(address)
            if path in self.host.unix_names:
                raise error(errno.EADDRINUSE)
            if not path.startswith("\0") and self.host.disk is not None:
                self.host.disk.make_socket(path)
            self.host.unix_names[path] = self
            self.local = path
        else:
            ip, port = str(address[0]) or any_address(self.family), address[1]
            if not is_any(ip) and self.host.world.network.host_at(ip, self.host) is not self.host:
                raise error(errno.EADDRNOTAVAIL)
            self.local = full_address(self.family, ip, port)
            self.local = full_address(self.family, ip, self.host.ports.bind(self, ip, port))
        self._is_bound = True

    def connect(self, address: Any) -> None:
        """connect(2): the address that `write` sends to, and the only one that is heard."""
        if self.family == socket.AF_UNIX:
            self.remote = path_of(address)
            self._named(self.remote)
            return
        ip = str(address[0])
        target = self.host.world.network.host_at(ip, self.host)
        if not self._is_bound:
            own = ip if target is self.host else self.host.addresses[self.family == socket.AF_INET6]
            self.bind((any_address(self.family) if is_any(own) else own, 0))
        self.remote = full_address(self.family, ip, address[1])

    def read(self, size: int) -> bytes:
        return self.receive(size)[0]

    def receive(self, size: int, *, peek: bool = False) -> tuple[bytes, Any]:
        """recvfrom(2): return a datagram, truncated to `size`, and the address it came from."""
        if self.error:
            number, self.error = self.error, 0
            raise error(number)
        if not self._inbox:
            raise error(errno.EAGAIN)
        data, address = self._inbox[0]
        if not peek:
            self._inbox.popleft()
            self._size -= len(data)
            if self.peer is not None:
                self.peer.changed()
            self._let_senders_go_on()
        return data[:size], address

    def write(self, data: "bytes | memoryview") -> int:
        if self.peer is not None:
            return self._hand_over(self.peer, bytes(data))
        if self.remote is None:
            raise error(errno.EDESTADDRREQ)
        return self.send_to(data, self.remote)

    def send_to(self, data: "bytes | memoryview", address: Any) -> int:
        """sendto(2). Nobody says whether it arrives."""
        if self.error:
            number, self.error = self.error, 0
            raise error(number)
        payload = bytes(data)
        if self.family == socket.AF_UNIX:
            return self._hand_over(self._named(path_of(address)), payload)
        if len(payload) > _LARGEST:
            raise error(errno.EMSGSIZE)
        world = self.host.world
        network = world.network
        target = network.host_at(str(address[0]), self.host)
        if not self._is_bound:
            self.bind((any_address(self.family), 0))
        origin = self._origin(str(address[0]), target)
        ip = str(address[0])
        if is_any(ip):
            ip = "127.0.0.1" if self.family == socket.AF_INET else "::1"
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

    def _origin(self, ip: str, target: Any) -> Any:
        if not is_any(self.local[0]):
            return self.local
        own = self.host.addresses[self.family == socket.AF_INET6]
        if target is self.host:
            own = ("::1" if self.family == socket.AF_INET6 else "127.0.0.1") if is_any(ip) else ip
        return full_address(self.family, own, self.local[1])

    def _deliver(self, target: Any, ip: str, port: int, data: bytes, origin: Any, flow: int) -> None:
        network = self.host.world.network
        if network.is_cut(self.host, target):
            return
        found = target.ports.find(self.family, self.type, ip, port, lambda sock: sock.hears(origin))
        if not found:
            if self.remote is not None and self.references and not network.is_cut(target, self.host):
                self.error = errno.ECONNREFUSED  # ICMP: port unreachable
                self.changed()
            return
        if found[0].take_in(data, origin):
            self.host.world.note("arrive", f"datagram {show_bytes(data)}", self.host.name, flow, target.name)

    def hears(self, origin: Any) -> bool:
        """Return whether this socket gets datagrams from `origin`."""
        return self.remote is None or tuple(self.remote[:2]) == tuple(origin[:2])

    def take_in(self, data: bytes, origin: Any) -> bool:
        """Put a datagram into the inbox; return False if it is full, and the datagram is lost."""
        if self._size + len(data) > _BUFFER:
            return False
        self._inbox.append((data, origin))
        self._size += len(data)
        self.changed()
        return True

    def _hand_over(self, other: "DatagramSocket", data: bytes) -> int:
        if not other.references:
            raise error(errno.ECONNREFUSED)
        if not other.take_in(data, self.local or None):
            self.host.full_datagram_sockets.append(self)
            raise error(errno.EAGAIN)
        return len(data)

    def _let_senders_go_on(self) -> None:
        waiting, self.host.full_datagram_sockets = self.host.full_datagram_sockets, []
        for sender in waiting:
            sender.changed()

    def _named(self, path: str) -> "DatagramSocket":
        found = self.host.unix_names.get(path)
        if found is None:
            is_there = self.host.disk is not None and self.host.disk.has_socket(path)
            raise error(errno.ECONNREFUSED if is_there else errno.ENOENT)
        if not isinstance(found, DatagramSocket):
            raise error(errno.EPROTOTYPE)
        return found

    def poll(self) -> int:
        bits = WRITE
        if self.family == socket.AF_UNIX and self.peer is not None and self.peer._size > _BUFFER // 2:
            bits = 0
        if self._inbox:
            bits |= READ
        if self.error:
            bits |= READ | ERROR
        return bits

    def shutdown(self, how: int) -> None:
        """shutdown(2): only a connected socket can be."""
        if self.remote is None and self.peer is None:
            raise error(errno.ENOTCONN)

    def take_error(self) -> int:
        """Return the pending error, and forget it (SO_ERROR)."""
        number, self.error = self.error, 0
        return number

    def close(self) -> None:
        self.host.ports.unbind(self)
        if isinstance(self.local, str) and self.host.unix_names.get(self.local) is self:
            del self.host.unix_names[self.local]
        if self.peer is not None:
            self.peer.changed()
