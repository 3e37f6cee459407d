"""A backend on ppoll(2), which adds two things to poll(2): timeouts in nanoseconds, and a mask of signals.

The mask is in force only while the backend waits. A thread that blocks signals (`signal.pthread_sigmask`) and passes
them to `PpollBackend(deliver=...)` is interrupted by them in its waits and nowhere else: no other system call of the
thread returns EINTR for them, and none is lost between the last check and the wait, because the kernel exchanges the
mask and begins to wait in one step. Without arguments, as when it is chosen by name, the backend changes no signal.

The call comes from the C library through ctypes, which lets other threads run meanwhile. Threads: `wake` may be called
from any thread and from a signal handler; all other methods belong to the loop's thread.
"""

import ctypes
import errno
import math
import os
import select
import sys
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any

from loopcore.errors import BackendClosedError
from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore.ports.readiness import Capability, ProbeResult, ReadyEvent

LONGEST = 2.0**31
"""Seconds that fit in every time_t."""
LARGEST_FD = 2**31 - 1
NANOSECONDS = 1_000_000_000
SIGNALS_BYTES = 128
"""The size of sigset_t, in glibc and in musl."""
SIG_BLOCK = 0


class _PollFd(ctypes.Structure):
    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _library() -> Any:
    """Return the C library that this process has already, or None if it has no ppoll(2)."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "ppoll") else None


class _Wakes:
    """A pipe whose bytes end waits, closed with the last reference.

    A concurrent wake in another thread holds a reference, so it never writes into a file that reuses the number.
    """

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        for end in (self.reader, self.writer):
            os.set_blocking(end, False)

    def __del__(self) -> None:
        os.close(self.reader)
        os.close(self.writer)

    def add(self) -> None:
        try:
            os.write(self.writer, b"\0")
        except BlockingIOError:
            pass  # full: a wake is pending

    def absorb(self) -> None:
        try:
            while os.read(self.reader, 4096):
                pass
        except BlockingIOError:
            pass


class PpollBackend:
    """Readiness from ppoll(2)."""

    name = "ppoll"
    capabilities = frozenset({Capability.LARGE_DESCRIPTORS, Capability.REGULAR_FILES})
    backend_api = (1, 0)

    @classmethod
    def probe(cls) -> ProbeResult:
        available = _library() is not None
        return ProbeResult(available, "" if available else "this platform has no ppoll(2); use poll")

    def __init__(self, deliver: Iterable[int] = ()) -> None:
        """Deliver these signals, which the thread has blocked, during waits."""
        self._library = _library()
        self._deliver = frozenset(deliver)
        self._interests: dict[int, int] = {}
        self._list: ctypes.Array[_PollFd] | None = None
        self._wakes: _Wakes | None = _Wakes()
        self._wake_fd = self._wakes.reader
        self._is_closed = False
        self._is_waiting = False
        self._owner = os.getpid()

    def register(self, fd: int, interest: int) -> None:
        self._must_be_open()
        if fd in self._interests:
            raise FileExistsError(f"descriptor {fd} is registered already")
        if not 0 <= fd <= LARGEST_FD:
            raise ValueError(f"{fd} is {'negative' if fd < 0 else 'larger than any descriptor'}")
        os.fstat(fd)  # raises OSError for a closed one: ppoll(2) itself would complain only in the wait
        self._interests[fd] = interest
        self._list = None

    def modify(self, fd: int, interest: int) -> None:
        self._must_be_open()
        if fd not in self._interests:
            raise self._unknown(fd)
        self._interests[fd] = interest
        self._list = None

    def unregister(self, fd: int) -> None:
        self._must_be_open()
        if self._interests.pop(fd, None) is None:
            raise self._unknown(fd)
        self._list = None
        if self._is_waiting:  # ppoll(2) was given `fd`, and holds its file
            self.wake()

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        self._is_waiting = True
        try:
            self._must_be_open()
            entries = self._wait(timeout)
        finally:
            self._is_waiting = False
            if self._is_closed:  # meanwhile, by a finalizer or another thread
                self._wakes = None
        self._must_be_open()
        events = [(entry.fd, _from_poll(entry.revents)) for entry in entries if entry.revents]
        if events and events[0][0] == self._wake_fd and self._wakes is not None:
            self._wakes.absorb()
        return [event for event in events if event[0] in self._interests]

    def _wait(self, timeout: float | None) -> "ctypes.Array[_PollFd]":
        deadline = None if timeout is None else monotonic() + min(timeout, LONGEST)
        entries = self._entries()
        remaining = None if timeout is None else min(timeout, LONGEST)
        while self._ppoll(entries, remaining) < 0:
            # A signal, whose Python handler has run by now without raising. Wait for the remaining time (PEP 475).
            if deadline is not None:
                remaining = max(0.0, deadline - monotonic())
        return entries

    def wake(self) -> None:
        wakes = self._wakes
        if wakes is not None:
            wakes.add()

    def close(self) -> None:
        self._is_closed = True  # first: another thread that misses its descriptor looks at it
        self._interests.clear()
        if self._is_waiting and os.getpid() == self._owner:  # a forked child has no waiting thread
            self.wake()  # the wait releases the pipe when it ends
        else:
            self._wakes = None

    def _unknown(self, fd: int) -> Exception:
        self._must_be_open()  # closed meanwhile: `close` has forgotten all of them
        return FileNotFoundError(f"descriptor {fd} is not registered")

    def _must_be_open(self) -> None:
        if self._is_closed:
            raise BackendClosedError("the backend 'ppoll' is closed")

    def _entries(self) -> "ctypes.Array[_PollFd]":
        """Return the descriptors to wait for, as an array for the C library; the wakes come first."""
        while self._list is None:
            interests = self._interests.copy()
            entries = [_PollFd(self._wake_fd, select.POLLIN, 0)]
            entries += [_PollFd(fd, _to_poll(interest), 0) for fd, interest in interests.items()]
            table = (_PollFd * len(entries))(*entries)
            if interests == self._interests:  # or else a finalizer has unregistered something meanwhile
                self._list = table
        return self._list

    def _ppoll(self, entries: "ctypes.Array[_PollFd]", timeout: float | None) -> int:
        """Return how many are ready, -1 after a signal. Rounds up: a wait that ends early spins until the deadline."""
        pause = None
        if timeout is not None:
            seconds, nanoseconds = divmod(math.ceil(timeout * NANOSECONDS), NANOSECONDS)
            pause = ctypes.byref(_Timespec(seconds, nanoseconds))
        count = ctypes.c_ulong(len(entries))
        found: int = self._library.ppoll(entries, count, pause, self._mask())
        if found < 0 and ctypes.get_errno() != errno.EINTR:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return found

    def _mask(self) -> Any:
        """Return the signals to block while waiting: those that the thread blocks, except those to deliver."""
        if not self._deliver:
            return None
        blocked = ctypes.create_string_buffer(SIGNALS_BYTES)
        self._library.pthread_sigmask(SIG_BLOCK, None, blocked)
        for number in self._deliver:
            self._library.sigdelset(blocked, number)
        return blocked


def _to_poll(interest: int) -> int:
    return (select.POLLIN if interest & READ else 0) | (select.POLLOUT if interest & WRITE else 0)


def _from_poll(bits: int) -> int:
    return (
        (READ if bits & select.POLLIN else 0)
        | (WRITE if bits & select.POLLOUT else 0)
        | (ERROR if bits & (select.POLLERR | select.POLLNVAL) else 0)
        | (HANGUP if bits & select.POLLHUP else 0)
    )
