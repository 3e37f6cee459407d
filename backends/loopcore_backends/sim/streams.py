"""Stream sockets: tcp(7), and unix(7) of the type SOCK_STREAM.

What is written travels over a wire (network.py) into the inbox of the other end. A window limits what may be
under way and unread, as the buffers of both kernels do.
"""

import errno
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore_backends.sim.descriptors import Description, error
from loopcore_backends.sim.network import CONNECT_GIVES_UP_AFTER, Wire, is_any

if TYPE_CHECKING:
    from loopcore_backends.sim.world import Event

BUFFER: Final = 131_072
_PREVIEW: Final = 24


class StreamSocket(Description):
    """A stream socket in any of its states."""

    kind = "socket"
    type = socket.SOCK_STREAM

    def __init__(self, host: Any, family: int, proto: int = 0) -> None:
        super().__init__(host)
        self.family = family
        self.proto = proto
        self.options: dict[tuple[int, int], Any] = {}
        self.local: Any = empty_address(family)
        self.remote: Any = None
        self.state = "new"  # new, listening, connecting, connected, closed
        self.error = 0
        self.peer: StreamSocket | None = None
        self._is_bound = False
        self._wire: Wire | None = None
        self._inbox: deque[bytes] = deque()
        self._unread = 0
        self._outstanding = 0
        """Bytes that were written and not yet read by the peer's program."""
        self._has_ended = False
        """The peer has said that nothing more comes."""
        self._is_shut = False
        """Nothing more is sent."""
        self._is_deaf = False
        """shutdown(SHUT_RD)."""
        self._is_broken = False
        """The peer takes nothing any more: EPIPE."""
        self._backlog = 0
        self._timeout: Event | None = None
        """Ends a connect that is not answered."""
        self._accepted: deque[StreamSocket] = deque()

    @property
    def shares_port(self) -> bool:
        """Whether another socket may be bound to the same port (SO_REUSEPORT, or SO_REUSEADDR while none listens)."""
        if self.options.get((socket.SOL_SOCKET, socket.SO_REUSEPORT)):
            return True
        return bool(self.options.get((socket.SOL_SOCKET, socket.SO_REUSEADDR))) and self.state != "listening"

    # --- making connections -------------------------------------------------------------------------

    def bind(self, address: Any) -> None:
        """bind(2)."""
        if self._is_bound:
            raise error(errno.EINVAL)
        if self.family == socket.AF_UNIX:
            self._bind_name(path_of(address))
            return
        ip, port = str(address[0]), address[1]
        if not is_any(ip) and self.host.world.network.host_at(ip, self.host) is not self.host:
            raise error(errno.EADDRNOTAVAIL)
        ip = ip or any_address(self.family)
        self.local = full_address(self.family, ip, port)
        self.local = full_address(self.family, ip, self.host.ports.bind(self, ip, port))
        self._is_bound = True

    def _bind_name(self, path: str) -> None:
        if path in self.host.unix_names:
            raise error(errno.EADDRINUSE)
        if path and not path.startswith("\0") and self.host.disk is not None:
            self.host.disk.make_socket(path)
        self.local = path
        self.host.unix_names[path] = self
        self._is_bound = True

    def listen(self, backlog: int) -> None:
        """listen(2)."""
        if self.state not in ("new", "listening"):
            raise error(errno.EINVAL)
        if not self._is_bound:
            if self.family == socket.AF_UNIX:
                raise error(errno.EINVAL)
            self.bind((any_address(self.family), 0))
        self.state = "listening"
        self._backlog = max(0, min(backlog, 4096))

    def accept(self) -> "StreamSocket":
        """accept(2): return the other end of the connection that waits longest."""
        if self.state != "listening":
            raise error(errno.EINVAL)
        if not self._accepted:
            raise error(errno.EAGAIN)
        accepted = self._accepted.popleft()
        self.host.world.note("accept", f"from {show_address(accepted.remote)}", host=self.host.name)
        self.changed()
        return accepted

    def is_full(self) -> bool:
        """Return whether no more connection fits into the queue of those to accept."""
        return len(self._accepted) > self._backlog

    def connect(self, address: Any) -> None:
        """connect(2), of a socket that does not block. Raises OSError, EINPROGRESS among them."""
        if self.state == "connected":
            raise error(errno.EISCONN)
        if self.state == "connecting":
            raise error(errno.EALREADY)
        if self.state != "new":
            raise error(errno.EINVAL)
        if self.error:
            raise error(self.take_error())
        if self.family == socket.AF_UNIX:
            self._connect_name(path_of(address))
            return
        ip, port = str(address[0]), address[1]
        target = self.host.world.network.host_at(ip, self.host)
        if is_any(ip):
            ip = "127.0.0.1" if self.family == socket.AF_INET else "::1"
        if not self._is_bound or is_any(self.local[0]):
            own = ip if target is self.host else self.host.addresses[self.family == socket.AF_INET6]
            if self._is_bound:
                self.local = full_address(self.family, own, self.local[1])
            else:
                self.bind((own, 0))
        self.remote = full_address(self.family, ip, port)
        self.state = "connecting"
        self.host.world.note("connect", f"to {show_address(self.remote)}", target.name)
        self._timeout = self.host.world.after(
            CONNECT_GIVES_UP_AFTER, lambda: self.fail(errno.ETIMEDOUT), f"connect of {self.host.name}: given up"
        )
        self._send_request(target, 0)
        raise error(errno.EINPROGRESS)

    def _send_request(self, target: Any, attempt: int) -> None:
        if self.state != "connecting":
            return
        network = self.host.world.network

        def arrive() -> None:
            if network.is_cut(self.host, target):
                again()
                return
            listener = target.listener_for(self.family, self.remote[0], self.remote[1])
            if listener is None:
                Wire(network, target, self.host).send(0, f"refusal to {self.host.name}", self._refused)
            elif listener.is_full():
                again()
            else:
                self._meet(listener)

        def again() -> None:
            self.host.world.after(2.0**attempt, lambda: self._send_request(target, attempt + 1), f"{label}, again")

        label = f"connect from {self.host.name} to {show_address(self.remote)}"
        delay = network.delay(self.host, target, 0, label, retransmits=True)
        if delay:
            self.host.world.after(delay, arrive, label)
        else:
            arrive()

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _refused(self) -> None:
        if self.state == "connecting":
            self.fail(errno.ECONNREFUSED)

    def _meet(self, listener: "StreamSocket") -> None:
        if self.state != "connecting":
            return
        network = self.host.world.network
        other = StreamSocket(listener.host, listener.family, self.proto)
        other.options.update(listener.options)
        other.local, other.remote = self.remote, self.local
        if listener.family != self.family:  # a socket for both: it sees IPv4 as addresses of IPv6
            other.local, other.remote = mapped(self.remote), mapped(self.local)
        other.pair(self, Wire(network, listener.host, self.host))
        self.peer = other
        self._wire = Wire(network, self.host, listener.host)
        self._wire.on_give_up = lambda: self.fail(errno.ETIMEDOUT)
        listener._accepted.append(other)
        listener.changed()
        other._carry(0, f"answer to connect from {self.host.name}", self._established)

    def _established(self) -> None:
        if self.state == "connecting":
            self.state = "connected"
            self._stop_timeout()
            self.changed()
        else:  # given up, closed or crashed meanwhile
            self._refuse_data()

    def _refuse_data(self) -> None:
        """Nobody has this end any more: answer with a reset."""
        peer = self.peer
        if peer is not None:
            self._carry(0, f"reset to {peer.host.name}", lambda: peer.reset(errno.ECONNRESET))

    def _connect_name(self, path: str) -> None:
        listener = self.host.unix_names.get(path)
        if listener is None or listener.type != self.type or listener.state != "listening":
            is_there = listener is not None or (self.host.disk is not None and self.host.disk.has_socket(path))
            raise error(errno.ECONNREFUSED if is_there else errno.ENOENT)
        if listener.is_full():
            raise error(errno.EAGAIN)
        other = StreamSocket(self.host, self.family)
        join(self, other)
        self.remote = other.local = path
        other.remote = self.local
        listener._accepted.append(other)
        listener.changed()

    def pair(self, peer: "StreamSocket", wire: Wire | None) -> None:
        """Connect this end to `peer`."""
        self.peer = peer
        self.state = "connected"
        self._wire = wire
        if wire is not None:
            wire.on_give_up = lambda: self.fail(errno.ETIMEDOUT)

    # --- the stream ---------------------------------------------------------------------------------

    def read(self, size: int, *, peek: bool = False) -> bytes:
        if self.error:
            raise error(self.take_error())
        if self._is_deaf:
            return b""
        if self._inbox:
            return self._take(size, peek)
        if self._has_ended:
            return b""
        if self.state == "connected" or self.state == "connecting":
            raise error(errno.EAGAIN)
        raise error(errno.ENOTCONN)

    def _take(self, size: int, peek: bool) -> bytes:
        data = b"".join(self._inbox) if len(self._inbox) > 1 else self._inbox[0]
        size = min(size, len(data))
        if size > 1 and not peek and self._wire is not None:
            portion = self.host.world.tape.choose(3, "read: all, half or a byte of what has arrived")
            size = (size, size // 2, 1)[portion]
        if peek:
            return data[:size]
        self._inbox.clear()
        if size < len(data):
            self._inbox.append(data[size:])
            data = data[:size]
        self._unread -= size
        peer = self.peer
        if peer is not None:
            peer._outstanding -= size
            peer.changed()
        return data

    def write(self, data: "bytes | memoryview") -> int:
        if self.error:
            raise error(self.take_error())
        if self._is_shut or self._is_broken:
            raise error(errno.EPIPE)
        if self.state == "connecting":
            raise error(errno.EAGAIN)
        if self.state != "connected" or self.peer is None:
            raise error(errno.ENOTCONN)
        size = min(len(data), self._window())
        if not size:
            if not len(data):
                return 0
            raise error(errno.EAGAIN)
        taken = bytes(data[:size])
        self._outstanding += size
        peer = self.peer
        if self._wire is None:
            peer._arrived(taken)
            return size
        world = self.host.world
        preview = show_bytes(taken)
        flow = world.new_flow()
        world.note("send", f"{preview} ({size} bytes)", peer.host.name, flow, self.host.name)

        def arrive() -> None:
            world.note("arrive", f"{preview} ({size} bytes)", self.host.name, flow, peer.host.name)
            peer._arrived(taken)

        self._carry(size, f"{preview} from {self.host.name} to {peer.host.name}", arrive)
        return size

    def _carry(self, size: int, label: str, arrive: Any) -> None:
        if self._wire is None:
            arrive()
        else:
            self._wire.send(size, label, arrive)

    def _arrived(self, data: bytes) -> None:
        if self.state == "closed":
            self._refuse_data()
            return
        if self._is_deaf:
            return
        self._inbox.append(data)
        self._unread += len(data)
        self.changed()

    def abandon(self) -> None:
        self.state = "closed"
        self._stop_timeout()
        for waiting in self._accepted:
            waiting.state = "closed"

    def _window(self) -> int:
        peer = self.peer
        if peer is None:
            return 0
        return max(0, self._buffer(socket.SO_SNDBUF) + peer._buffer(socket.SO_RCVBUF) - self._outstanding)

    def _buffer(self, option: int) -> int:
        size: int = self.options.get((socket.SOL_SOCKET, option), BUFFER)
        return size

    def poll(self) -> int:
        if self.state == "listening":
            return READ if self._accepted else 0
        if self.state == "new":
            return WRITE | HANGUP if not self.error else WRITE | READ | ERROR | HANGUP
        if self.state == "connecting":
            return 0
        bits = 0
        if self._inbox or self._has_ended or self._is_deaf:
            bits |= READ
        if self._is_shut or self._is_broken or self._window():
            bits |= WRITE
        if self._has_ended and (self._is_shut or self._is_broken):
            bits |= HANGUP
        if self.error:
            bits |= READ | WRITE | ERROR
        return bits

    # --- ends ---------------------------------------------------------------------------------------

    def shutdown(self, how: int) -> None:
        """shutdown(2)."""
        if self.state != "connected":
            raise error(errno.ENOTCONN)
        if how in (socket.SHUT_RD, socket.SHUT_RDWR):
            self._is_deaf = True
        if how in (socket.SHUT_WR, socket.SHUT_RDWR) and not self._is_shut:
            self._is_shut = True
            self._send_end(closes=False)
        self.changed()

    def _send_end(self, *, closes: bool) -> None:
        peer = self.peer
        if peer is None:
            return
        if self._wire is not None:
            self.host.world.note("close", "nothing more comes", peer.host.name, 0, self.host.name)
        self._carry(0, f"end of stream from {self.host.name} to {peer.host.name}", lambda: peer._ended(closes))

    def _ended(self, closes: bool) -> None:
        self._has_ended = True
        if closes and self._wire is None:
            self._is_broken = True  # over TCP only an answer to what is sent now tells
        self.changed()

    def reset(self, number: int) -> None:
        """The peer has broken the connection off."""
        if self.state in ("connected", "connecting") and not self.error:
            self._is_broken = self._has_ended = True
            self._inbox.clear()
            self._unread = 0
            self.fail(number)

    def fail(self, number: int) -> None:
        """Let the next call report `number`."""
        self.error = number
        self._stop_timeout()
        if self.state == "connecting":
            self.state = "new"
        else:
            self._is_broken = self._has_ended = True
        self.changed()

    def take_error(self) -> int:
        """Return the pending error, and forget it (SO_ERROR)."""
        number, self.error = self.error, 0
        return number

    def close(self) -> None:
        before, self.state = self.state, "closed"
        self._stop_timeout()
        self.host.ports.unbind(self)
        if self.host.unix_names.get(self.local if isinstance(self.local, str) else "") is self:
            del self.host.unix_names[self.local]
        for waiting in self._accepted:
            waiting.references = 0
            waiting._break_off()
        self._accepted.clear()
        if before != "connected" or self.peer is None:
            return
        on, seconds = self.options.get((socket.SOL_SOCKET, socket.SO_LINGER), (0, 0))
        if self._unread or (on and not seconds):
            self._break_off()
        elif not self._is_shut:
            self._send_end(closes=True)
        elif self._wire is None:
            self.peer._ended(True)

    def _break_off(self) -> None:
        self.state = "closed"
        peer = self.peer
        if peer is not None:
            if self._wire is not None:
                self.host.world.note("reset", "the connection is broken off", peer.host.name, 0, self.host.name)
            self._carry(0, f"reset to {peer.host.name}", lambda: peer.reset(errno.ECONNRESET))


def join(one: StreamSocket, other: StreamSocket) -> None:
    """Connect two ends in one kernel: what is written is there at once."""
    one.pair(other, None)
    other.pair(one, None)


def empty_address(family: int) -> Any:
    """Return what getsockname(2) says of a socket that is not bound."""
    return "" if family == socket.AF_UNIX else full_address(family, any_address(family), 0)


def any_address(family: int) -> str:
    """Return the address that stands for all of a host's."""
    return "::" if family == socket.AF_INET6 else "0.0.0.0"


def full_address(family: int, ip: str, port: int) -> Any:
    """Return an address as Python's sockets give it."""
    return (ip, port, 0, 0) if family == socket.AF_INET6 else (ip, port)


def mapped(address: Any) -> Any:
    """Return an IPv4 address as IPv6 shows it."""
    return (f"::ffff:{address[0]}", address[1], 0, 0)


def path_of(address: Any) -> str:
    """Return the name of a Unix socket; one in the abstract namespace begins with NUL."""
    path = address.decode("utf-8", "surrogateescape") if isinstance(address, (bytes, bytearray)) else str(address)
    if len(path) > 107:
        raise OSError("AF_UNIX path too long")
    return path


def show_address(address: Any) -> str:
    """Return an address for people."""
    if isinstance(address, tuple):
        return f"[{address[0]}]:{address[1]}" if len(address) == 4 else f"{address[0]}:{address[1]}"
    return str(address) or "a nameless socket"


def show_bytes(data: bytes) -> str:
    """Return the beginning of `data` for people."""
    shown = data[:_PREVIEW]
    text = shown.decode("latin-1")
    text = "".join(char if char.isprintable() and char < "\x7f" else " " for char in text).strip()
    if not text or len(text) * 2 < len(shown):
        return f"{len(data)} bytes of binary data"
    return f"{text!r}" if len(data) <= _PREVIEW else f"{text!r}..."
