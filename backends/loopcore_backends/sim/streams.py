"""Stream sockets, what those of TCP (tcp.py) and of Unix (unix.py) have in common: the buffers, and what is shut down.

A window limits what may be under way and unread, as the buffers of both kernels do.
"""

import errno
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from loopcore_backends.sim.descriptors import error
from loopcore_backends.sim.socket_base import RECEIVING, Socket, show_address

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host

BUFFER: Final = 131_072
SOMAXCONN: Final = 4096
_PRINTABLE: Final = bytes(byte if 0x20 <= byte < 0x7F else 0x20 for byte in range(256))
_TEXT: Final = bytes([*range(0x20, 0x7F), *b"\t\n\r"])
_PREVIEW: Final = 24
BINARY: Final = "binary data"


class StreamSocket(Socket):
    """A stream socket in any of its states: closed, listening, connecting, connected, and the ends of TCP."""

    type = socket.SOCK_STREAM
    buffer = BUFFER

    def __init__(self, host: "Host", family: int, proto: int = 0) -> None:
        super().__init__(host, family, proto)
        self.state = "closed"
        self.peer: Any = None
        self._inbox: deque[bytes] = deque()
        self._unread = 0
        self._outstanding = 0
        """Bytes that were written and not yet read by the peer's program."""
        self._backlog = 0
        self._accepted: deque[Any] = deque()

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

    def _is_roomy(self) -> bool:
        """Return whether so much room is free that poll(2) says so: a third, as in Linux."""
        peer = self.peer
        if peer is None:
            return True
        whole: int = self._buffer(socket.SO_SNDBUF) + peer._buffer(socket.SO_RCVBUF)
        return self._window() * 3 >= whole


def show_bytes(data: bytes) -> str:
    """Return the beginning of `data` for people, or BINARY: ciphertext differs by chance, its size too."""
    shown = data[:_PREVIEW]
    if shown.translate(None, _TEXT):
        return BINARY
    text = shown.translate(_PRINTABLE).decode("ascii").strip()
    return f"{text!r}" if len(data) <= _PREVIEW else f"{text!r}..."
