"""The receiving half of the driver for completion ports: one operation, used again and again.

A MultishotReceiver receives. Large messages are better received one at a time, straight into a buffer that is in the
processor's cache: while they arrive, and where polling costs no extra system call, the MultishotReceiver polls, and
the driver makes the receive calls itself, like the readiness driver. Lent memory stays the port's until it is copied
into a BufferedProtocol's buffer, in several rounds if that is smaller.

An edge-triggered Poll reports what arrives, not what is still there. A receive that got less than it had room for has
emptied the socket; after a full one, or once the peer's end was seen, the driver continues in the next tick. This holds
for TCP and `bytes`; docs/adr/0010 describes urgent data. A receive from a Unix socket also stops after bytes that carry
descriptors, and where the sending process changes, if credentials are requested. Other sockets may have reasons of
their own to stop short, and a protocol's buffer may be smaller than what is available: these are polled each time.

Thread: the loop's own.
"""

import socket
from typing import TYPE_CHECKING, Any, Final

from loopcore.kernel.completions import Completions
from loopcore.ports.interest import ERROR, HANGUP, READ
from loopcore.ports.operations import Operation, Poll, Receive
from loopcore.transports.driver import Sink
from loopcore.transports.driver_buffered import READ_FAILED, BufferedStreamDriver
from loopcore.transports.multishot_receiver import MultishotReceiver

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.sockets import copy_into
else:
    from loopcore._native.sockets import copy_into

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler

RECEIVE_LIMIT: Final = 120 * 1024
"""Largest result in bytes: below 128 KiB, where malloc turns to mmap(2) (docs/adr/0011)."""

LARGE: Final = 16 * 1024
"""After a result of this many bytes the driver makes the receive calls itself, if the port polls cheaply."""

SMALL: Final = 8 * 1024
SMALL_ONES: Final = 16
"""After this many results in a row below SMALL, the port receives again."""

_RECEIVE_LIMIT, _LARGE, _SMALL, _SMALL_ONES = RECEIVE_LIMIT, LARGE, SMALL, SMALL_ONES
_ENDING = ERROR | HANGUP
_INTERNET: Final = (socket.AF_INET, socket.AF_INET6)


class CompletionReader(BufferedStreamDriver):
    """One connected, non-blocking socket that is read over a completion port. The contract is StreamDriver's."""

    __slots__ = ("_completions", "_receiving", "_receiver", "_polling", "_small_ones", "_is_ending")

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        BufferedStreamDriver._prepare(self, scheduler, sink, sock, context)
        self._completions: Completions = scheduler.completions
        self._receiving: Operation = Receive(self.fd, RECEIVE_LIMIT)
        self._receiver: MultishotReceiver = MultishotReceiver(scheduler, self, self._receiving)
        self._polling: Poll | None = None  # used instead of `_receiving` while messages are large
        self._small_ones: int = 0
        self._is_ending: bool = False  # whether a poll saw an error or the end, and perhaps no receive yet

    def start_reading(self) -> None:
        if not self.reading:
            receiving = self._receiving
            if isinstance(receiving, Receive) and not receiving.pending:
                receiving.lend = self.buffered and not self._completions.polls_cheaply
            self.reading = True
            self._receiver.start()

    def stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            self._receiver.stop()

    def _arrived(self, result: Any) -> None:
        sink = self.sink
        if isinstance(result, bytes):
            if not result:
                sink._end_of_file()
            elif self.buffered:
                self._fill(result, None)
            else:
                size = len(result)
                self.count_received(size)
                sink._on_received(result)
                self._adapt_receive_mode(size)
        elif isinstance(result, OSError):
            sink._failed(result, READ_FAILED)
        elif isinstance(result, int):
            self._receive_once(result)
        else:
            self._fill(result.view, result)

    def _receive_once(self, bits: int) -> None:
        """Receive after a poll that reported `bits`; continue later if it will not report what may be left."""
        if bits & _ENDING:
            self._is_ending = True
        # The room is known only for the driver's own receives. Computed first: the protocol may change either.
        room = 1 if self.buffered else self._receive_size()
        try:
            size = self._receive()
        except BaseException:
            if self.reading:
                self._receiver.rearm()  # SystemExit or KeyboardInterrupt: it is unknown what is left
            raise
        is_left = size > 0 and (size >= room or self._is_ending)
        self._adapt_receive_mode(size)
        if is_left and self._polling is not None and self._polling.edges and self.reading:
            self._receiver.rearm()

    def _adapt_receive_mode(self, size: int) -> None:
        """Decide, from the size of the last result, whether the port or the driver receives next."""
        if self._polling is None:
            if size >= _LARGE and self.reading and self._completions.polls_cheaply:
                self._small_ones = 0
                self._poll()
        elif size >= _SMALL:
            self._small_ones = 0
        else:
            self._small_ones += 1
            if self._small_ones >= _SMALL_ONES and self.reading:
                self._polling = None
                self._receiver.use(self._receiving)

    def _poll(self) -> None:
        """Have the port poll from now on: edge-triggered if a receive can detect that it has emptied the socket."""
        is_edged = False
        if not self.buffered and not self._is_pipe and self.sock.proto in (0, socket.IPPROTO_TCP):
            is_edged = int(self.sock.family) in _INTERNET  # an SCTP receive ends with its message
        self._polling = Poll(self.fd, READ, edges=is_edged)
        self._receiver.use(self._polling)

    def _fill(self, data: Any, lent: Any) -> None:
        """Copy `data` into the protocol's buffers. A rest is held, or passed to a new, unbuffered protocol."""
        sink = self.sink
        size = len(data)
        position = largest = 0
        try:
            while position < size and self.reading and self.buffered:
                buffer = sink._get_buffer()
                if buffer is None or not self.reading:  # get_buffer() may have closed or paused the transport
                    break
                count: int = copy_into(buffer, data, position)
                position += count
                largest = max(largest, count)
                self.count_received(count)
                sink._buffer_updated(count)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            sink._failed(exc, READ_FAILED)
        finally:
            rest = bytes(data[position:]) if position < size else None
            if lent is not None:
                lent.give_back()
            if rest is not None and self.reading and not self.buffered:
                self._arrived(rest)  # the protocol was replaced in between
            elif rest is not None:
                self._receiver.push_back(rest)
        # Receiving straight into small buffers would take a system call for each of them.
        self._adapt_receive_mode(largest if largest < _SMALL else size)
