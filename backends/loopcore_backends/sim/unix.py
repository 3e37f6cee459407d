"""Unix sockets of the type SOCK_STREAM: unix(7).

Both ends are in one kernel: what is written is in the other's inbox at once, and a shutdown or close is seen at once.
States, errors and readiness are those of Linux (net/unix/af_unix.c).
"""

import errno
from itertools import count
from typing import Any

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore_backends.sim.descriptors import error
from loopcore_backends.sim.socket_base import BOTH, RECEIVING, SENDING, Socket, name_of, path_of, shutdown_bits
from loopcore_backends.sim.streams import SOMAXCONN, StreamSocket


class NamedSocket(Socket):
    """A socket of AF_UNIX: its address is a name."""

    peer: Any

    def bind(self, address: Any) -> None:
        if self._is_bound:
            raise error(errno.EINVAL)
        self.local = bind_name(self, path_of(address))
        self._is_bound = True

    def peer_name(self) -> Any:
        if self.peer is None:
            raise error(errno.ENOTCONN)
        return "" if self.remote is None else self.remote


class UnixSocket(NamedSocket, StreamSocket):
    """A socket of AF_UNIX and SOCK_STREAM."""

    def listen(self, backlog: int) -> None:
        if not self._is_bound or self.state not in ("closed", "listening"):
            raise error(errno.EINVAL)
        self.state = "listening"
        self._backlog = max(0, min(backlog, SOMAXCONN))
        self.changed()

    def connect(self, address: Any) -> None:
        listener = find_name(self, path_of(address))
        if listener.state != "listening" or listener.shut & RECEIVING:
            raise error(errno.ECONNREFUSED)
        if listener.is_full():
            raise error(errno.EAGAIN)
        if self.state != "closed":
            raise error(errno.EISCONN if self.state == "connected" else errno.EINVAL)
        other = UnixSocket(self.host, self.family)
        join(self, other)
        self.remote = other.local = listener.local
        other.remote = self.local
        other._is_bound = True
        listener._accepted.append(other)
        listener.changed()
        self.changed()

    # --- the stream ---------------------------------------------------------------------------------

    def read(self, size: int, *, peek: bool = False) -> bytes:
        if self.state != "connected":
            raise error(errno.EINVAL)
        if self._inbox:
            return self._take(size, peek)
        self._raise_pending()
        if self.shut & RECEIVING:
            return b""
        raise error(errno.EAGAIN)

    def write(self, data: "bytes | memoryview") -> int:
        peer = self.peer
        if peer is None:
            raise error(errno.ENOTCONN)
        if self.shut & SENDING:
            raise error(errno.EPIPE)
        if not len(data):
            return 0
        self._raise_pending()
        size = min(len(data), self._window())
        if not size:
            raise error(errno.EAGAIN)
        if peer.shut & RECEIVING:
            raise error(errno.EPIPE)
        self._outstanding += size
        peer._put(bytes(data[:size]))
        return size

    def send_to(self, data: "bytes | memoryview", address: Any) -> int:
        raise error(errno.EISCONN if self.state == "connected" else errno.EOPNOTSUPP)

    def poll(self) -> int:
        bits = 0
        if self.error:
            bits |= ERROR
        if self.shut == BOTH or self.state == "closed":
            bits |= HANGUP
        if self.shut & RECEIVING or self._inbox or self._accepted:
            bits |= READ
        if self.state != "listening" and self._is_roomy():
            bits |= WRITE
        return bits

    # --- ends ---------------------------------------------------------------------------------------

    def shutdown(self, how: int) -> None:
        bits = shutdown_bits(how)
        self.shut |= bits
        self.changed()
        if self.peer is not None:
            self.peer.shut |= (SENDING if bits & RECEIVING else 0) | (RECEIVING if bits & SENDING else 0)
            self.peer.changed()

    def close(self) -> None:
        forget_name(self)
        for waiting in self._accepted:
            waiting._part(is_lost=True)
        self._accepted.clear()
        self._part(is_lost=bool(self._inbox))

    def _part(self, is_lost: bool) -> None:
        self.shut = BOTH
        peer = self.peer
        if peer is None:
            return
        peer.shut = BOTH
        if is_lost:
            peer.error = errno.ECONNRESET
        self._inbox.clear()
        peer._outstanding = 0
        peer.changed()


def join(one: UnixSocket, other: UnixSocket) -> None:
    """Connect two ends: what is written to one is at once in the other's inbox."""
    one.peer, other.peer = other, one
    one.state = other.state = "connected"


# --- names ------------------------------------------------------------------------------------------


def bind_name(sock: Any, path: str) -> Any:
    """Give `sock` the name `path`; return it as Python gives it. Raises OSError(EADDRINUSE) and those of files."""
    host = sock.host
    if not path:
        path = next(f"\0{number:05x}" for number in count(1) if _key(sock, f"\0{number:05x}") not in host.unix_names)
    key = _key(sock, path)
    if not path.startswith("\0"):
        host.disk.make_socket(path)
    elif key in host.unix_names:
        raise error(errno.EADDRINUSE)
    host.unix_names[key] = sock
    return name_of(path)


def find_name(sock: Any, path: str) -> Any:
    """Return the socket of this name, of the type of `sock`. Raises OSError: ENOENT, ECONNREFUSED, EPROTOTYPE."""
    host = sock.host
    found = host.unix_names.get(_key(sock, path))
    if found is None:
        if not path.startswith("\0"):
            host.disk.find(path)  # ENOENT, or what else is wrong with the path
        raise error(errno.ECONNREFUSED)
    if found.type != sock.type:
        raise error(errno.EPROTOTYPE)
    return found


def forget_name(sock: Any) -> None:
    """Take the name of `sock` away. One in the file system stays there, and connects to it are refused."""
    names = sock.host.unix_names
    key = _key(sock, path_of(sock.local))
    if names.get(key) is sock:
        del names[key]


def _key(sock: Any, path: str) -> str:
    # An abstract name stands for one socket of each type, a name in the file system for one socket.
    return f"{path}\0{int(sock.type)}" if path.startswith("\0") else path
