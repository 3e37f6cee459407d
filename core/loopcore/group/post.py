"""How an accepted connection gets from one member to another.

Threads append to the inbox of the other loop, under its lock, and wake that loop. Processes send the descriptor
(SCM_RIGHTS) through a pair of sockets that every place of the group has: all other members hold its sending end, so
a connection takes one hop.

Giving never blocks, and an inbox is bounded: when it is full, or its member has closed it, `give` returns False and the
connection stays where it was accepted. So handing over loses no connection and holds none back.
"""

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from loopcore.group.descriptors import receive

CAPACITY: Final = 256
"""The most connections that wait in the inbox of a thread. That of a process is a socket, which says if it is full."""

BATCH: Final = 64
"""Connections that a process takes from its inbox before other callbacks get their turn."""

_HEADER: Final = struct.Struct("!HH")
"""Sender and server."""

Deliver = Callable[[int, int, socket.socket | None], None]
"""Takes the sender's index, the number of the server and the connection, in the thread of the receiving loop.

The connection is None if it was lost: this process could not open its descriptor.
"""


class Post(Protocol):
    """One member's way to and from the others. Thread: the member's loop."""

    def open(self, loop: asyncio.AbstractEventLoop, deliver: Deliver) -> None:
        """Begin to receive."""

    def give(self, target: int, number: int, sock: socket.socket) -> bool:
        """Give `sock` to member `target` for server `number`; return False, and leave it alone, if that cannot be."""

    def close(self, replaced: bool) -> None:
        """Stop receiving; deliver waiting connections, unless the member that replaces this one receives them."""


class ThreadInbox:
    """Connections for one loop. `put` may be called in any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: Deliver) -> None:
        self._loop = loop
        self._deliver = deliver
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, int, socket.socket]] = deque()
        self._is_open = True

    def put(self, sender: int, number: int, sock: socket.socket) -> bool:
        """Add a connection and wake the loop; return False if the inbox is closed or full."""
        with self._lock:
            if not self._is_open or len(self._waiting) >= CAPACITY:
                return False
            self._waiting.append((sender, number, sock))
            if len(self._waiting) == 1:
                # Under the lock: the loop is not closed before the inbox is.
                self._loop.call_soon_threadsafe(self._empty)
            return True

    def close(self) -> None:
        """Refuse connections from now on, and deliver those that wait."""
        with self._lock:
            self._is_open = False
        self._empty()

    def _empty(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for sender, number, sock in waiting:
            self._deliver(sender, number, sock)


class ThreadPost:
    """The post of a member among threads. `inboxes` is shared by all members of the group."""

    def __init__(self, inboxes: list[ThreadInbox | None], index: int) -> None:
        self._inboxes = inboxes
        self._index = index
        self._own: ThreadInbox | None = None

    def open(self, loop: asyncio.AbstractEventLoop, deliver: Deliver) -> None:
        """Begin to receive."""
        self._own = self._inboxes[self._index] = ThreadInbox(loop, deliver)

    def give(self, target: int, number: int, sock: socket.socket) -> bool:
        """Give `sock` to the loop of member `target`."""
        inbox = self._inboxes[target]
        return inbox is not None and inbox.put(self._index, number, sock)

    def close(self, replaced: bool) -> None:
        """Stop receiving. Waiting connections are delivered in any case: they are in this thread's inbox."""
        if self._own is not None:
            self._own.close()
            self._own = None


class SocketPost:
    """The post of a member among processes: `receiver` is its end, `senders` are those of all places."""

    def __init__(self, receiver: socket.socket, senders: Sequence[socket.socket], index: int) -> None:
        self._receiver = receiver
        self._senders = senders
        self._index = index
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deliver: Deliver | None = None
        for each in (receiver, *senders):
            each.setblocking(False)

    def open(self, loop: asyncio.AbstractEventLoop, deliver: Deliver) -> None:
        """Begin to receive."""
        self._loop, self._deliver = loop, deliver
        loop.add_reader(self._receiver.fileno(), self._read)

    def give(self, target: int, number: int, sock: socket.socket) -> bool:
        """Send the descriptor to member `target`, and close it here."""
        try:
            socket.send_fds(self._senders[target], [_HEADER.pack(self._index, number)], [sock.fileno()])
        except OSError:  # full (EAGAIN, ENOBUFS, ETOOMANYREFS), or the group ends
            return False
        sock.close()
        return True

    def close(self, replaced: bool) -> None:
        """Stop receiving. Connections that are on their way stay in the socket for a replacement."""
        if self._loop is None:
            return
        self._loop.remove_reader(self._receiver.fileno())
        self._loop = None
        while not replaced and self._read_one():
            pass

    def _read(self) -> None:
        for _ in range(BATCH):
            if self._loop is None or not self._read_one():
                return

    def _read_one(self) -> bool:
        try:
            message, descriptors = receive(self._receiver, _HEADER.size, 1)
        except (BlockingIOError, InterruptedError):
            return False
        if len(message) != _HEADER.size:  # the group's end is closed
            if self._loop is not None:
                self._loop.remove_reader(self._receiver.fileno())
            return False
        sender, number = _HEADER.unpack(message)
        assert self._deliver is not None
        # Without a descriptor the connection was reset: this process may open no more.
        self._deliver(sender, number, socket.socket(fileno=descriptors[0]) if descriptors else None)
        return True


def socket_pairs(count: int) -> list[tuple[socket.socket, socket.socket]]:
    """Return a receiving and a sending end for each place, which keep messages apart."""
    kind = getattr(socket, "SOCK_SEQPACKET", socket.SOCK_DGRAM)  # on Linux not limited to ten messages
    try:
        return [socket.socketpair(socket.AF_UNIX, kind) for _ in range(count)]
    except OSError:  # macOS knows the name, and no such sockets
        return [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(count)]
