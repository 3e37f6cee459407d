"""The driver for completion ports: receiving is CompletionReader's, and one operation sends.

Where polls are cheap, written bytes are sent by send(2) near the end of their tick, or, compiled, after the
result that they answer (docs/adr/0011); only a refused rest becomes a Send. On other ports a small amount is
submitted as one Send. While a Send is in flight, later writes wait: two concurrent sends could overtake each other. A
caller that must know now whether the kernel has room calls `flush`, which tries send(2) as long as nothing is in
flight.

This also decides whether the result of a Send is awaited. After a `flush` that left something unsent, the transport
waits for it; bytes written behind a Send wait for it, too. Any other Send is `quiet`: its success need not end the
loop's wait, and no callback runs for it.

`unsent` counts the bytes that the port has not reported as sent. The buffers of a Send belong to the port until it has
ended: they are replaced, not changed.
"""

import socket
from typing import TYPE_CHECKING, Any, Final

from loopcore.ports.operations import Outgoing, Send
from loopcore.transports.accepted import close_socket
from loopcore.transports.driver import Buffer, Sink
from loopcore.transports.driver_buffered import VECTOR_LIMIT, WRITE_FAILED
from loopcore.transports.driver_completion_reader import CompletionReader

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler

AWAITED_LIMIT: Final = 256 * 1024
"""Bytes in one Send while the transport waits for room. A port may end it only when all of it is sent."""

DIRECT: Final = 8 * 1024
"""Where polls are not cheap, this many bytes written in one tick are sent at once too: memory is reused sooner."""

_VECTOR_LIMIT, _AWAITED_LIMIT, _DIRECT = VECTOR_LIMIT, AWAITED_LIMIT, DIRECT


class CompletionDriver(CompletionReader):
    """One connected, non-blocking socket over a completion port. The contract is StreamDriver's."""

    __slots__ = ("_sending", "_in_flight", "_is_sending", "_is_counted", "_is_dropped", "_is_awaited")

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        CompletionReader._prepare(self, scheduler, sink, sock, context)
        self._sending: Outgoing = Send(self.fd)
        self._in_flight: int = 0
        """Bytes in `_sending`; 0 once its outcome no longer matters."""
        self._is_sending: bool = False  # whether the port has `_sending`, or it has ended but was not dispatched yet
        self._is_counted: bool = False  # whether its sent bytes are counted, but its callback has not run yet
        self._is_dropped: bool = False  # whether the sink no longer wants its result
        self._is_awaited: bool = False  # whether the transport waits until less is unsent

    # Sending

    def write(self, item: Buffer, size: int) -> None:
        if self.unsent == self._in_flight:
            self._single = item
        else:
            self._append(item)
        self.unsent += size
        if self._is_sending:
            self._sending.quiet = False
            return
        self.scheduler.unflushed += size
        self._schedule_flush()

    def write_some(self, item: Buffer) -> int:
        goal = self.sent + self.unsent
        self.flush()
        return self._send_some(item) if self.sent == goal else 0  # nothing may follow while earlier bytes are unsent

    def flush(self) -> None:
        if self.unsent == 0:
            return
        if self._is_sending and not self._is_counted:
            self._is_awaited, self._sending.quiet = True, False
            return
        try:
            self._send_queued()
            # A Send that ended in this tick's wait has yet to run: it then notifies the sink and sends what is queued.
            self._is_awaited = self.unsent > 0 or self._is_sending
            if self._is_sending:
                return
            if self.unsent:
                self._submit()
        except (SystemExit, KeyboardInterrupt):
            self._schedule_flush()  # for what is left
            raise
        except BaseException as exc:
            self.discard()
            self.sink._failed(exc, WRITE_FAILED)
            return
        self.sink._on_written()

    def _answer(self) -> None:
        # The sink is None after `release`.
        if self._flush_scheduled and self._completions.polls_cheaply and self.scheduler._take_flush(self.sink):
            self.run_flush()

    def run_flush(self) -> None:
        self._flush_scheduled = False
        if self._is_sending or self.unsent == 0:
            return
        if self.unsent < _DIRECT and not self._completions.polls_cheaply:
            self._submit_or_fail()
        else:
            self.flush()

    def _submit_or_fail(self) -> bool:
        """Submit; if the port refuses, end the connection. Return whether the port accepted it."""
        try:
            self._submit()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self.discard()
            self.sink._failed(exc, WRITE_FAILED)
            return False
        return True

    def _submit(self) -> None:
        """Submit the queue to the port, which has no Send of this driver."""
        # Set first: a finalizer that closes the transport during this call must send neither the bytes about to be
        # submitted nor anything queued behind them.
        self._is_sending = True
        try:
            self._submit_queue()
        except BaseException:
            self._is_sending = False
            raise

    def _submit_queue(self) -> None:
        sending = self._sending
        if (self._is_awaited and self.unsent > _AWAITED_LIMIT) or len(self._queue) > _VECTOR_LIMIT:
            first = self._take_first(_AWAITED_LIMIT)
            sending.buffers = first
            self._in_flight = sum(map(len, first)) - self._head
        else:
            if self._single is not None:
                sending.buffers = (self._single,)
                self._single = None
            else:
                sending.buffers = self._queue
                self._queue = []
            self._in_flight = self.unsent
        sending.head = self._head
        self._head = 0
        sending.quiet = not self._is_awaited and self._in_flight == self.unsent
        sending.target = self
        in_flight, self._in_flight = self._in_flight, 0  # until the port has accepted it: `submit` may raise
        self._completions.submit(sending)
        self._in_flight = in_flight

    def _takes_note(self, result: Any) -> bool:
        if self._in_flight == 0 or isinstance(result, OSError):
            return True
        self._note_sent(result)
        if self.unsent or self._is_awaited:
            self._is_counted = True
            return True
        self._sending.result = None
        self._sending.target = None
        self._is_sending = False
        return False

    def _run(self) -> None:
        """Continue after the Send, which has ended."""
        sending = self._sending
        result = sending.result
        sending.result = None
        sending.target = None
        self._is_sending = False
        is_dropped, is_counted = self._is_dropped, self._is_counted
        self._is_dropped = self._is_counted = False
        if is_counted:
            if not is_dropped:
                self._go_on()
            return
        if self._in_flight == 0:
            sending.buffers = ()
            if not isinstance(result, OSError):
                self.count_sent(result)  # only the counters still need it
        elif not isinstance(result, OSError) or isinstance(result, BlockingIOError | InterruptedError):
            self._is_sending = True  # a finalizer that closes the transport must not overtake the rest
            self._note_sent(0 if isinstance(result, OSError) else result)  # not counted, if a signal came between
            self._is_sending = False
            self._go_on()
        else:
            sending.buffers = ()
            self.discard()
            self.sink._failed(result, WRITE_FAILED)

    def _go_on(self) -> None:
        if self.unsent and not self._submit_or_fail():
            return
        self._is_awaited = self._is_awaited and self.unsent > 0
        self.sink._on_written()

    def _note_sent(self, sent: int) -> None:
        """Count the bytes that the Send has sent, and put its rest before what was queued behind it."""
        sending = self._sending
        self.count_sent(sent)
        self.unsent -= sent
        if sent < self._in_flight:
            rest = list(sending.buffers)
            if self._single is not None:
                rest.append(self._single)
                self._single = None
            else:
                rest.extend(self._queue)
            self._queue = rest
            self._head = sending.head
            self._drop(sent)
        sending.buffers = ()
        self._in_flight = 0

    # Ending

    def discard(self) -> None:
        self._drop_all()
        self._in_flight = 0
        if self._is_sending:
            self._is_dropped = True
            if self._sending.pending and self._completions.submitted:
                self._completions.begin()  # asyncio would have offered it to the kernel by now
            self._completions.cancel(self._sending)  # no effect if it has ended

    def release(self) -> None:
        sock = self.sock
        if sock is None:
            return
        self.reading = False
        self.discard()
        self._receiver.release()
        self.sock = None  # type: ignore[assignment]
        self.sink = None  # type: ignore[assignment]
        close_socket(sock)

    def describe(self) -> str:
        read, write = ["polling" if is_asked else "idle" for is_asked in (self.reading, self._is_sending)]
        return f"read={read} write=<{write}, bufsize={self.unsent}>"
