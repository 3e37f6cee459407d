"""Wakers: how another thread or a signal handler ends a wait.

A waker is a descriptor that the backend watches along with the registered ones; `wake` makes it readable.
It is an eventfd(2) where there is one: a single descriptor, with a counter that hardly ever fills up.
Elsewhere it is a non-blocking socket pair, which every platform has and which select(2) accepts on Windows too.

Lifetime: a waker has no `close`. A backend that closes drops its reference, and the descriptor is closed with
the last one. An explicit close would let a thread inside `wake` write into whatever file reused the number;
a lock against that could stay locked for ever in a forked child, where its owner does not exist. Without
reference counting (PyPy) the descriptor lives until the next collection.

Thread: `wake` any, and signal handlers; `drain` the loop's own.
"""

import errno
import os
import socket
from typing import Any, Final, Protocol

REFUSED: Final = (errno.EPERM, errno.EACCES, errno.ENOSYS)
"""The error of a seccomp profile for a system call that it does not know."""


class Waker(Protocol):
    """A descriptor that becomes readable when `wake` is called, and stays so until `drain`."""

    fd: int
    edges: bool
    """Whether every wake is a new edge for an edge-triggered watcher, even if the last one was not drained."""

    def wake(self) -> None: ...

    def drain(self) -> None: ...


class EventfdWaker:
    """An eventfd(2); owns `fd`, which must be non-blocking. Cannot be copied: the copy would close `fd` too."""

    edges = True

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def wake(self) -> None:
        try:
            os.eventfd_write(self.fd, 1)
        except BlockingIOError:
            # The counter is at its limit, 2**64 - 2. A refused write makes no edge, so make room for one.
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

    edges = False  # a full buffer takes no more bytes, hence makes no more edges

    def __init__(self, reader: socket.socket, writer: socket.socket) -> None:
        self.fd = reader.fileno()
        self._reader = reader
        self._writer = writer

    def wake(self) -> None:
        try:
            self._writer.send(b"\0")
        except BlockingIOError:
            pass  # full of wakes that were not drained yet: readable already

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
    """Return the best waker that this platform offers. Raises OSError when the process is out of descriptors."""
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
    """A waker with a flag, for level-triggered backends: while it is down, events need not be searched for the waker.

    It also knows whether a wait is under way. A descriptor that is unregistered during a wait, by a finalizer, a
    signal handler or another thread, wakes it: the system call has the descriptor, holds its file and would report
    it. A waker that is closed during a wait ends that wait, and keeps its descriptor until it has ended.

    `wake` as in the port: any thread, signal handlers, and after `close` a no-op.
    """

    __slots__ = ("closed", "fd", "raised", "waiting", "_owner", "_waker")

    def __init__(self) -> None:
        """Make the waker. Raises OSError when the process is out of descriptors."""
        self._waker: Waker | None = make_waker()
        self.fd: int = self._waker.fd
        """Unchanged after `close`, when it means nothing."""
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
        """End the wait under way, if any: the table it was given has changed. Thread: any."""
        if self.waiting:
            self._end_wait()

    def _end_wait(self) -> None:
        self.raised = True  # before the wake: the wait that it ends has to look at its events
        self.wake()

    def absorb(self) -> None:
        """Lower the flag, and make the descriptor unreadable again. Thread: the loop's own."""
        # The flag first: a wake between the two lines raises it again, and the next wait reads its byte at the
        # latest. In the other order that byte could stay, and every wait would end at once.
        self.raised = False
        waker = self._waker
        if waker is not None:
            waker.drain()

    def close(self) -> None:
        """Drop the waker, whose descriptor is closed with its last reference; during a wait, when that has ended."""
        self.closed = True
        if self.is_in_use():
            self._end_wait()
        else:
            self._waker = None

    def is_in_use(self) -> bool:
        """Tell whether a wait is under way. False in a forked child, which has a copy of the flag but not the wait."""
        return self.waiting and os.getpid() == self._owner
