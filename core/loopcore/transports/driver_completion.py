"""The driver for completion ports: what CompletionReader receives with, and one operation that sends.

Where polls are cheap what was written is sent by send(2) near the end of its tick, or, compiled, after the
result that it answers (docs/adr/0011); only what is refused becomes a Send. Elsewhere little leaves as one Send. While
one is in flight, what is written behind it waits: two sends at a time could overtake each other. Who must know now
whether the kernel has room calls `flush`, which asks it by send(2) as long as nothing is in flight.

That also says who waits for a Send. After a `flush` that left something the transport does; and whatever is written
behind a Send does. The success of any other is `quiet`: it need not end the loop's wait, and has no turn of its own.

`unsent` counts what the port has not said to be sent. What a Send holds belongs to the port until it has ended: it is
replaced, not changed.
"""

import socket
from typing import TYPE_CHECKING, Any, Final

from loopcore.operations import Send
from loopcore.transports.accepted import close_socket
from loopcore.transports.driver import Buffer, Sink
from loopcore.transports.driver_buffered import VECTOR_LIMIT, WRITE_FAILED
from loopcore.transports.driver_completion_reader import CompletionReader

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.cpython import raise_pending
    from cython.cimports.loopcore.native.flushes import take_only

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler

AWAITED_LIMIT: Final = 256 * 1024
"""Bytes of one Send while the transport waits for room. A port may end it only when all is sent."""

DIRECT: Final = 8 * 1024
"""Where polls are not cheap, so many bytes of one tick are sent at once too: their memory is used again sooner."""

_VECTOR_LIMIT, _AWAITED_LIMIT, _DIRECT = VECTOR_LIMIT, AWAITED_LIMIT, DIRECT
_FAILED, _UNTRIED = -2, -3


class CompletionDriver(CompletionReader):
    """One connected, non-blocking socket over a completion port. The contract is StreamDriver's."""

    __slots__ = ("_sending", "_in_flight", "_is_sending", "_is_counted", "_is_dropped", "_is_awaited")

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        CompletionReader._prepare(self, scheduler, sink, sock, context)
        self._sending: Send = Send(self.fd)
        self._in_flight: int = 0
        """Bytes that `_sending` is about; 0 if nobody wants to know any more what becomes of them."""
        self._is_sending: bool = False  # whether `_sending` is the port's, or has ended and was not dispatched yet
        self._is_counted: bool = False  # whether what it has sent is accounted for, and its turn has yet to come
        self._is_dropped: bool = False  # whether nobody above wants to hear of it any more
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
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self.scheduler._flush_soon(self.sink)

    def write_some(self, item: Buffer) -> int:
        goal = self.sent + self.unsent
        self.flush()
        return self._send_some(item) if self.sent == goal else 0  # behind what could not be sent nothing may follow

    def flush(self) -> None:
        if self.unsent == 0:
            return
        if self._is_sending and not self._is_counted:
            self._is_awaited, self._sending.quiet = True, False
            return
        try:
            sent = self._send_single() if cython.compiled and self._single is not None else _UNTRIED
            if cython.compiled and sent == _FAILED:
                raise_pending()
            if sent == _UNTRIED:
                self._send_queued()
            elif self.unsent:
                self._note_single(sent)
            # One that came back with this tick's wait has its turn yet, tells the sink, and goes on with what is there.
            self._is_awaited = self.unsent > 0 or self._is_sending
            if self._is_sending:
                return
            if self.unsent:
                self._submit()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self.discard()
            self.sink._failed(exc, WRITE_FAILED)
            return
        self.sink._on_written()

    def _answer(self) -> None:
        if not self._flush_scheduled or not self._completions.polls_cheaply or self.scheduler._observed:
            return
        if not take_only(self.scheduler._flushes, self.sink):  # None after `release`
            return
        self.scheduler.stats.callbacks += 1
        self.scheduler.unflushed = 0
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
        """Submit; if the port refuses, that is the end of the connection. Return whether it took it."""
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
        """Give what is queued to the port, which has nothing of ours to send."""
        # From here on: a finalizer that closes the transport inside this must neither send what is about to be
        # submitted, nor anything that stands behind it.
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
        in_flight, self._in_flight = self._in_flight, 0  # until the port has taken it: it may raise
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
        """Go on after the Send, which has ended."""
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
                self.count_sent(result)  # nobody else wants to know
        elif not isinstance(result, OSError) or isinstance(result, BlockingIOError | InterruptedError):
            self._is_sending = True  # a finalizer that closes the transport must not send what stands behind the rest
            self._note_sent(0 if isinstance(result, OSError) else result)  # not noted, if a signal came between
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
        """Count what the Send has sent, and put what it has left before what was queued behind it."""
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
            self._completions.cancel(self._sending)  # if it has ended, that changes nothing

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
