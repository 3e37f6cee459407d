"""Associations: the port's record of a descriptor, and of each operation in flight on it.

The first operation that has to wait creates an association; it is dropped some time after the last one (see
`_port`). It borrows the descriptor and never closes it.
"""

import os
import socket
import stat
from typing import Any, Final

from loopcore.ports.interest import READ, WRITE
from loopcore.ports.operations import ACCEPT, POLL, READ_FILE, RECEIVE, RECEIVE_FROM, Operation

HAS_IDENTITIES: Final = os.name == "posix"
"""Whether fstat(2) distinguishes open sockets; it does not work on a Windows SOCKET at all."""

UNBOUND_HAS_NO_NAME: Final = os.name == "nt"
"""Whether getsockname(2), which gives a socket object its family, fails until the socket is bound."""

READERS: Final = frozenset({ACCEPT, RECEIVE, RECEIVE_FROM, READ_FILE})


class Borrowed(socket.socket):
    """A socket object for a descriptor with another owner: its deallocation does not close it."""

    __slots__ = ()

    def __del__(self) -> None:
        self.detach()


class Overlapped:
    """An operation in flight, and its progress."""

    __slots__ = ("operation", "association", "queue", "taken", "rest", "begun", "is_cancelled")

    def __init__(self, operation: Operation, association: "Association | None") -> None:
        self.operation: Operation = operation
        self.association: Association | None = association
        """None when it has ended and its completion was not handed out yet."""
        self.queue: list[Overlapped] = []
        """The queue it is in, one of the three of the association."""
        self.taken: int = 0
        """Bytes that the kernel has taken."""
        self.rest: list[memoryview] | None = None
        """The bytes left to send; a bytearray in it cannot be resized until then."""
        self.begun: bool = False
        """A connection is under way."""
        self.is_cancelled: bool = False
        """It is to be cancelled by the next dequeue."""

    def release(self) -> None:
        """Release the buffers."""
        if self.rest is not None:
            for view in self.rest:
                view.release()
            self.rest = None


class Association:
    """A descriptor, the operations that wait for it, and the interest that the multiplexer has in it."""

    __slots__ = (
        "fd", "readers", "writers", "polls", "registered", "suspect", "dirty", "unwatchable", "rested", "_socket",
        "_identity",
    )  # fmt: skip

    def __init__(self, fd: int) -> None:
        """Raises OSError if `fd` is not an open descriptor, as far as that can be determined."""
        self.fd: int = fd
        self.readers: list[Overlapped] = []
        self.writers: list[Overlapped] = []
        self.polls: list[Overlapped] = []
        self.registered: int = 0
        """The interest it is registered with; 0 if it is not registered."""
        self.suspect: bool = False
        """The number may have been closed and reused since it was registered."""
        self.dirty: bool = False
        """It is in the list of associations whose registration may have to change."""
        self.unwatchable: bool = False
        """A regular file, or another descriptor that cannot report readiness and is always ready."""
        self.rested: int = -1
        """The number of the wait before which it was found idle; -1 while it is in use."""
        self._socket: Borrowed | None = None
        self._identity: tuple[int, int] = (0, 0)
        self._look()

    @property
    def socket(self) -> Borrowed:
        """A socket object for the descriptor. Raises OSError if it is not a socket."""
        if self._socket is None:
            self._socket = Borrowed(fileno=self.fd)
        return self._socket

    def socket_for(self, address: Any) -> Borrowed:
        """The same for sending to `address`, which determines the family where an unbound socket cannot."""
        if self._socket is None and UNBOUND_HAS_NO_NAME:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            self._socket = Borrowed(family, -1, -1, self.fd)
        return self.socket

    def queue_for(self, code: int) -> list[Overlapped]:
        """Return the queue in which operations of this code wait."""
        if code in READERS:
            return self.readers
        return self.polls if code == POLL else self.writers

    def wanted(self) -> int:
        """Return the interest of all waiting operations."""
        wanted = (READ if self.readers else 0) | (WRITE if self.writers else 0)
        for overlapped in self.polls:
            operation: Any = overlapped.operation
            wanted |= operation.interest
        return wanted

    def is_idle(self) -> bool:
        return not (self.readers or self.writers or self.polls)

    def is_same_file(self) -> bool:
        """Tell whether the number is still the same file; if not, or if it is closed, examine it again."""
        before = self._identity
        try:
            self._look()
        except OSError:
            self._identity = (0, 0)
        if self._identity == before:
            return True
        self.forget_socket()
        return False

    def forget_socket(self) -> None:
        """Drop the socket object, which must not outlive the number's meaning."""
        if self._socket is not None:
            self._socket.detach()
            self._socket = None

    def in_flight(self) -> list[Overlapped]:
        return [*self.readers, *self.writers, *self.polls]

    def _look(self) -> None:
        if HAS_IDENTITIES:
            found = os.fstat(self.fd)
            self._identity = (found.st_dev, found.st_ino)
            self.unwatchable = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
