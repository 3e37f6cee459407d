"""Wakers: how another thread or a signal handler ends a wait.

A waker is a descriptor that the backend watches beside the registered ones, and that `wake` makes
readable. eventfd(2) where there is one: a single descriptor, and a counter that can hardly fill up.
Elsewhere a non-blocking socket pair, which every platform has and which select(2) takes on Windows too.

Lifetime: a waker has no `close`. A backend that closes drops its reference, and the descriptor goes with
the last one. Were it closed by hand, a thread inside `wake` could write into whatever file got the
number next; a lock against that would be held by nobody in the child of a fork. Where references are
not counted (PyPy) the descriptor lives until the next collection.

Thread: `wake` any, and signal handlers; `drain` the loop's own.
"""

import errno
import os
import socket
from typing import Any, Final, Protocol

REFUSED: Final = (errno.EPERM, errno.EACCES, errno.ENOSYS)
"""What a seccomp profile answers to a system call that it does not know."""


class Waker(Protocol):
    """A descriptor that becomes readable when `wake` is called, and stays so until `drain`."""

    fd: int
    edges: bool
    """Every wake is a new edge for an edge-triggered watcher, also when nobody drained the one before."""

    def wake(self) -> None: ...

    def drain(self) -> None: ...


class EventfdWaker:
    """An eventfd(2); owns `fd`, which must be non-blocking. Cannot be copied: the copy would close it, too."""

    edges = True

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def wake(self) -> None:
        try:
            os.eventfd_write(self.fd, 1)
        except BlockingIOError:
            # The counter stands at its limit, 2**64 - 2. A refused write is no edge, so make room for one.
            self.drain()
            os.eventfd_write(self.fd, 1)

    def drain(self) -> None:
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            pass

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def __del__(self) -> None:
        os.close(self.fd)


class SocketpairWaker:
    """A pair of connected, non-blocking sockets; owns both."""

    edges = False  # a full buffer takes no more bytes, hence gives no more edges

    def __init__(self, reader: socket.socket, writer: socket.socket) -> None:
        self.fd = reader.fileno()
        self._reader = reader
        self._writer = writer

    def wake(self) -> None:
        try:
            self._writer.send(b"\0")
        except BlockingIOError:
            pass  # full of wakes that nobody drained yet: readable already

    def drain(self) -> None:
        try:
            while self._reader.recv(4096):
                pass
        except BlockingIOError:
            pass

    def __del__(self) -> None:
        self._reader.close()
        self._writer.close()


def make_waker() -> Waker:
    """Return the best waker that can be had here. Raises OSError when the process is out of descriptors."""
    if hasattr(os, "eventfd"):
        try:
            return EventfdWaker(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
        except OSError as exc:
            if exc.errno not in REFUSED:
                raise
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    return SocketpairWaker(reader, writer)


class FlaggedWaker:
    """A waker with a flag, for a backend that watches it level-triggered: one that is not raised spares a search.

    It also knows whether a wait is under way. What is unregistered meanwhile, by a finalizer, a signal handler or
    another thread, wakes it: the system call was given the descriptor, holds its file and would report it. And a
    waker that is closed meanwhile stays until that wait has ended, which it ends.

    `wake` as in the port: any thread, signal handlers, and after `close` a no-op.
    """

    __slots__ = ("closed", "fd", "raised", "waiting", "_owner", "_waker")

    def __init__(self) -> None:
        """Make the waker. Raises OSError when the process is out of descriptors."""
        self._waker: Waker | None = make_waker()
        self.fd: int = self._waker.fd
        """Stays what it was after `close`, when it means nothing."""
        self.raised: bool = False
        """There was a wake since the last `absorb`: `fd` may be among the events."""
        self.waiting: bool = False
        """A wait is under way. Set by the backend."""
        self.closed: bool = False
        self._owner: int = os.getpid()

    def wake(self) -> None:
        # A local reference: it keeps the descriptor alive while another thread closes the backend.
        waker = self._waker
        if waker is not None:
            waker.wake()
            self.raised = True

    def disturb(self) -> None:
        """End the wait that is under way, if one is: what it was given is no longer so. Thread: any."""
        if self.waiting:
            self._end_wait()

    def _end_wait(self) -> None:
        self.raised = True  # before: what the wake ends has to look at its events
        self.wake()

    def absorb(self) -> None:
        """Take back the flag, and what makes the descriptor readable. Thread: the loop's own."""
        # The flag first: a wake between the two lines raises it again, and its byte is read by the next wait at
        # the latest. The other way round that byte could stay, and every wait would end at once.
        self.raised = False
        if self._waker is not None:
            self._waker.drain()

    def close(self) -> None:
        """Let go of the waker, which goes with its last reference; if a wait is under way, when that has ended."""
        self.closed = True
        if self.is_in_use():
            self._end_wait()
        else:
            self._waker = None

    def is_in_use(self) -> bool:
        """Tell whether a wait is under way: not in a forked child, which has a copy of the flag and of no wait."""
        return self.waiting and os.getpid() == self._owner
