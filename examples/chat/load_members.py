"""Clients of the load program: they count what they receive, and check every line against what must come.

Posts of a group are numbered, so each member knows at any time which one is next. A gap moves that on by its count: a
report that is wrong by one, a message lost without a report, one that comes twice or in another order are all
found at the next post, or at the end.
"""

import asyncio
import socket
import time
from array import array
from typing import Any

from messages import EVENTS, MAX_LINE, Error, Join, Joined, List, Members, Missed, Post, WireError, decode, encode

_POSTED = b'{"type":"message"'
_TEXT = b'"text":"'


class Violation(Exception):
    """The server has not kept its promise."""


class Ledger:
    """What all members of a run write to."""

    def __init__(self) -> None:
        self.latencies_ns: array[int] = array("q")
        """From when a post was due to when a fast member had it."""
        self.trouble: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Ends with the first Violation."""


class MemberClient(asyncio.Protocol):
    """One connection in one group, which reads whatever comes as soon as it comes.

    `comrades` counts the members of the group that join after it.
    """

    def __init__(self, ledger: Ledger, group: str, name: str, comrades: int) -> None:
        self.group = group
        self.name = name
        self.received = 0
        """Posts."""
        self.missed = 0
        """Posts that the server has reported as missed."""
        loop = asyncio.get_running_loop()
        self.joined: asyncio.Future[None] = loop.create_future()
        self.complete: asyncio.Future[None] = loop.create_future()
        """It has seen the joins of all later members, `comrades` in number."""
        self.listed: asyncio.Future[None] = loop.create_future()
        """The answer to `ask`: what was said before is here."""
        self.own = asyncio.Semaphore(0)
        """Own posts that came back and were not awaited yet."""
        self._absent = comrades
        self._ledger = ledger
        self._transport: asyncio.Transport
        self._partial = b""
        self._signature = f'"name":"{name}"'.encode()
        self._is_closing = False

    @property
    def expected(self) -> int:
        """The number of the post that is due."""
        return self.received + self.missed

    def join(self) -> None:
        self._transport.write(encode(Join(self.group, self.name)))

    def post(self, number: int, due_ns: int, padding: str) -> None:
        """Post to the group what was due at `due_ns`, in the time of `time.monotonic_ns`."""
        self._transport.write(encode(Post(self.group, f"{number} {due_ns} {padding}")))

    def ask(self) -> None:
        """Ask something whose answer comes behind all that was said before: `listed` is set then."""
        self.listed = asyncio.get_running_loop().create_future()
        self._transport.write(encode(List(self.group)))

    def close(self) -> None:
        self._is_closing = True
        self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_closing:
            self._report(f"the connection ended: {exc or 'closed by the server'}")

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        *lines, self._partial = (self._partial + data).split(b"\n")
        try:
            for line in lines:
                self._take(line, now_ns)
            if len(self._partial) > MAX_LINE:
                raise Violation(f"a line of more than {MAX_LINE} bytes")
        except (Violation, WireError) as exc:
            self._report(str(exc))
            self.close()

    def _take(self, line: bytes, now_ns: int) -> None:
        if line.startswith(_POSTED):
            self._take_post(line, now_ns)
            return
        match decode(line + b"\n", EVENTS):
            case Missed(self.group, count):
                self.missed += count
            case Joined(self.group, self.name):
                self.joined.set_result(None)
            case Joined(self.group, _):
                self._absent -= 1
            case Members(self.group):
                self.listed.set_result(None)
            case Error(code, reason):
                raise Violation(f"the server refused: {reason} ({code})")
            case other:
                raise Violation(f"{other} came")
        if not self._absent and not self.complete.done():
            self.complete.set_result(None)

    def _take_post(self, line: bytes, now_ns: int) -> None:
        # Not `decode`: this is what a load is made of, and it is to be the server that is busy.
        number, due_ns, _ = line[line.index(_TEXT) + len(_TEXT) :].split(b" ", 2)
        if int(number) != self.expected:
            raise Violation(f"post {int(number)} came where {self.expected} was due")
        self.received += 1
        self._note_latency(now_ns - int(due_ns))
        if self._signature in line:
            self.own.release()

    def _note_latency(self, latency_ns: int) -> None:
        self._ledger.latencies_ns.append(latency_ns)

    def _report(self, what: str) -> None:
        if not self._ledger.trouble.done():
            self._ledger.trouble.set_exception(Violation(f"{self.name} in {self.group}: {what}"))


class SlowClient(MemberClient):
    """A member that takes a nap after each piece that it reads, until `hurry`."""

    BUFFER_BYTES = 4 * 1024
    """What its kernel holds for it while it is slow, and so about what it reads between two naps."""

    LARGE_BUFFER_BYTES = 256 * 1024
    """What it holds afterwards."""

    def __init__(self, ledger: Ledger, group: str, name: str, comrades: int) -> None:
        super().__init__(ledger, group, name, comrades)
        self._is_tired = False
        self._was_slow = False
        """It has old posts to read, whose latency is its own doing."""
        self._nap_time = 0.0
        self._nap: asyncio.TimerHandle | None = None

    def slow_down(self, nap: float) -> None:
        """Nap for `nap` seconds after each piece from now on."""
        self._is_tired = self._was_slow = True
        self._nap_time = nap
        self._set_buffer(self.BUFFER_BYTES)

    def hurry(self) -> None:
        """Read as fast as anybody from now on."""
        self._is_tired = False
        self._set_buffer(self.LARGE_BUFFER_BYTES)
        if self._nap is not None:
            self._nap.cancel()
            self._wake()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_tired and self._nap is None and not self._is_closing:
            self._transport.pause_reading()
            self._nap = asyncio.get_running_loop().call_later(self._nap_time, self._wake)

    def _set_buffer(self, size_bytes: int) -> None:
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)

    def _wake(self) -> None:
        self._nap = None
        self._transport.resume_reading()

    def close(self) -> None:
        if self._nap is not None:
            self._nap.cancel()
        super().close()

    def _note_latency(self, latency_ns: int) -> None:
        if not self._was_slow:
            super()._note_latency(latency_ns)
