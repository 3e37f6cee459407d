"""Stream sockets, what those of TCP (tcp.py) and of Unix (unix.py) have in common: the buffers, and what is shut down.

A window limits what may be under way and unread, as the buffers of both kernels do. The names of fields that Linux has
as well follow it: `shut` is its sk_shutdown, `error` its sk_err.
"""

import errno
import socket
from collections import deque
from typing import Any, Final

from loopcore_backends.sim.descriptors import Description, error

BUFFER: Final = 131_072
RECEIVING: Final = 1
SENDING: Final = 2
BOTH: Final = RECEIVING | SENDING
"""Bits of `shut`."""
SOMAXCONN: Final = 4096
_PRINTABLE: Final = bytes(byte if 0x20 <= byte < 0x7F else 0x20 for byte in range(256))
_TEXT: Final = bytes([*range(0x20, 0x7F), *b"\t\n\r"])
_PREVIEW: Final = 24
BINARY: Final = "binary data"


class StreamSocket(Description):
    """A stream socket in any of its states: closed, listening, connecting, connected, and the ends of TCP."""

    kind = "socket"
    type = socket.SOCK_STREAM

    def __init__(self, host: Any, family: int, proto: int = 0) -> None:
        super().__init__(host)
        self.family = family
        self.proto = proto
        self.options: dict[tuple[int, int], Any] = {}
        self.local: Any = empty_address(family)
        self.remote: Any = None
        self.state = "closed"
        self.error = 0
        self.shut = 0
        self.peer: Any = None
        self._is_bound = False
        self._inbox: deque[bytes] = deque()
        self._unread = 0
        self._outstanding = 0
        """Bytes that were written and not yet read by the peer's program."""
        self._backlog = 0
        self._accepted: deque[Any] = deque()

    # --- for tcp.py and unix.py ---------------------------------------------------------------------

    def bind(self, address: Any) -> None:
        """bind(2)."""
        raise NotImplementedError

    def listen(self, backlog: int) -> None:
        """listen(2)."""
        raise NotImplementedError

    def connect(self, address: Any) -> None:
        """connect(2), of a socket that does not block. Raises OSError, EINPROGRESS among them."""
        raise NotImplementedError

    def peer_name(self) -> Any:
        """getpeername(2)."""
        raise NotImplementedError

    def send_to(self, data: "bytes | memoryview", address: Any) -> int:
        """sendto(2) with an address."""
        raise NotImplementedError

    def shutdown(self, how: int) -> None:
        """shutdown(2)."""
        raise NotImplementedError

    # --- what both do -------------------------------------------------------------------------------

    def accept(self) -> Any:
        """accept(2): return the other end of the connection that waits longest."""
        if self.state != "listening" or self.shut & RECEIVING:
            raise error(errno.EINVAL)
        if not self._accepted:
            raise error(errno.EAGAIN)
        accepted = self._accepted.popleft()
        peer = "" if accepted.peer is None else accepted.peer.host.name
        self.host.world.note("accept", f"from {show_address(accepted.remote)}", peer, host=self.host.name)
        self.changed()
        return accepted

    def is_full(self) -> bool:
        """Return whether no more connection fits into the queue of those to accept."""
        return len(self._accepted) > self._backlog

    def take_error(self) -> int:
        """Return the pending error, and forget it (SO_ERROR)."""
        number, self.error = self.error, 0
        return number

    def _raise_pending(self) -> None:
        if self.error:
            raise error(self.take_error())

    def _take(self, size: int, peek: bool) -> bytes:
        data = b"".join(self._inbox) if len(self._inbox) > 1 else self._inbox[0]
        if peek:
            return data[:size]
        self._inbox.clear()
        if size < len(data):
            self._inbox.append(data[size:])
            data = data[:size]
        self._unread -= len(data)
        peer = self.peer
        if peer is not None:
            peer._outstanding -= len(data)
            peer.changed()
        return data

    def _put(self, data: bytes) -> None:
        self._inbox.append(data)
        self._unread += len(data)
        self.changed()

    def _window(self) -> int:
        peer = self.peer
        if peer is None:
            return 0
        room: int = self._buffer(socket.SO_SNDBUF) + peer._buffer(socket.SO_RCVBUF) - self._outstanding
        return max(0, room)

    def _buffer(self, option: int) -> int:
        size: int = self.options.get((socket.SOL_SOCKET, option), BUFFER)
        return size

    def _is_roomy(self) -> bool:
        """Return whether so much room is free that poll(2) says so: a third, as in Linux."""
        peer = self.peer
        if peer is None:
            return True
        whole: int = self._buffer(socket.SO_SNDBUF) + peer._buffer(socket.SO_RCVBUF)
        return self._window() * 3 >= whole


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


def name_of(path: str) -> Any:
    """Return the name of a Unix socket as Python gives it: bytes in the abstract namespace."""
    return path.encode("utf-8", "surrogateescape") if path.startswith("\0") else path


def show_address(address: Any) -> str:
    """Return an address for people."""
    if isinstance(address, tuple):
        return f"[{address[0]}]:{address[1]}" if len(address) == 4 else f"{address[0]}:{address[1]}"
    return path_of(address or "").replace("\0", "@") or "a nameless socket"


def show_bytes(data: bytes) -> str:
    """Return the beginning of `data` for people, or BINARY: ciphertext differs by chance, its size too."""
    shown = data[:_PREVIEW]
    if shown.translate(None, _TEXT):
        return BINARY
    text = shown.translate(_PRINTABLE).decode("ascii").strip()
    return f"{text!r}" if len(data) <= _PREVIEW else f"{text!r}..."
