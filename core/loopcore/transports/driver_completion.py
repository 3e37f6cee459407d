"""The driver for completion ports: one operation receives, used again and again, and one sends.

Receiving: a MultishotReceiver receives. Large messages are better received one at a time, straight into a buffer that
is in the processor's cache: while they arrive, and where polling costs no extra system call, the MultishotReceiver
polls, and the driver makes the receive calls itself, like the readiness driver. Lent memory stays the port's until it
is copied into a BufferedProtocol's buffer, in several rounds if that is smaller.

An edge-triggered Poll reports what arrives, not what is still there. A receive that got less than it had room for has
emptied the socket; after a full one, or once the peer's end was seen, the driver continues in the next tick. This holds
for TCP and `bytes`; docs/adr/0010 describes urgent data. A receive from a Unix socket also stops after bytes that carry
descriptors, and where the sending process changes, if credentials are requested. Other sockets may have reasons of
their own to stop short, and a protocol's buffer may be smaller than what is available: these are polled each time.

Sending: where polls are cheap, written bytes are sent by send(2) near the end of their tick, or after the result that
they answer (docs/adr/0011); only a refused rest becomes a Send. On other ports a small amount is submitted as one Send.
While a Send is in flight, later writes wait: two concurrent sends could overtake each other. A caller that must know
now whether the kernel has room calls `flush`, which tries send(2) as long as nothing is in flight.

This also decides whether the result of a Send is awaited. After a `flush` that left something unsent, the transport
waits for it; bytes written behind a Send wait for it, too. Any other Send is `quiet`: its success need not end the
loop's wait, and no callback runs for it.

The result of a Send arrives in two steps. `_needs_turn_after`, right after the wait, counts its bytes, so that
callbacks of the pending phase find a true `unsent` and may send at once; `_run`, in the io phase, goes on with the
queue. In between `_is_sending` is still set, and `_is_counted` says that the port owns no bytes of this driver any
more.

`unsent` counts the bytes that the port has not reported as sent. The buffers of a Send belong to the port until it has
ended: they are replaced, not changed.

Thread: the loop's own.
"""

import socket
from typing import TYPE_CHECKING, Any, Final

from loopcore.kernel.completions import Completions
from loopcore.ports.interest import ERROR, HANGUP, READ
from loopcore.ports.operations import Operation, Outgoing, Poll, Receive, Send
from loopcore.transports.accepted import close_socket
from loopcore.transports.buffers import VECTOR_LIMIT, Buffer
from loopcore.transports.driver import Sink
from loopcore.transports.driver_buffered import READ_FAILED, WRITE_FAILED, BufferedStreamDriver
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
    from loopcore.ports.operations import Lent

RECEIVE_LIMIT: Final = 120 * 1024
"""Largest result in bytes: below 128 KiB, where malloc turns to mmap(2) (docs/adr/0011)."""

LARGE: Final = 16 * 1024
"""After a result of this many bytes the driver makes the receive calls itself, if the port polls cheaply."""

SMALL: Final = 8 * 1024
SMALL_ONES: Final = 16
"""After this many results in a row below SMALL, the port receives again."""

_LARGE, _SMALL, _SMALL_ONES = LARGE, SMALL, SMALL_ONES
_ENDING = ERROR | HANGUP
_INTERNET: Final = (socket.AF_INET, socket.AF_INET6)

AWAITED_LIMIT: Final = 256 * 1024
"""Bytes in one Send while the transport waits for room. A port may end it only when all of it is sent."""

DIRECT: Final = 8 * 1024
"""Where polls are not cheap, this many bytes written in one tick are sent at once too: memory is reused sooner."""

_VECTOR_LIMIT, _AWAITED_LIMIT, _DIRECT = VECTOR_LIMIT, AWAITED_LIMIT, DIRECT


class CompletionDriver(BufferedStreamDriver):
    """One connected, non-blocking socket over a completion port. The contract is StreamDriver's."""

    __slots__ = (
        "_completions",
        "_receiving",
        "_receiver",
        "_polling",
        "_small_ones",
        "_is_ending",
        "_sending",
        "_in_flight",
        "_is_sending",
        "_is_counted",
        "_is_dropped",
        "_is_awaited",
    )

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        BufferedStreamDriver._prepare(self, scheduler, sink, sock, context)
        self._completions: Completions = scheduler._completions
        self._receiving: Operation = Receive(self.fd, RECEIVE_LIMIT)
        self._receiver: MultishotReceiver = MultishotReceiver(scheduler, self, self._receiving)
        self._polling: Poll | None = None  # used instead of `_receiving` while messages are large
        self._small_ones: int = 0
        self._is_ending: bool = False  # whether a poll saw an error or the end, and perhaps no receive yet
        self._sending: Outgoing = Send(self.fd)
        self._in_flight: int = 0
        """Bytes in `_sending`; 0 once its outcome no longer matters."""
        self._is_sending: bool = False  # whether the port has `_sending`, or it has ended but was not dispatched yet
        self._is_counted: bool = False  # whether its sent bytes are counted, but its callback has not run yet
        self._is_dropped: bool = False  # whether the sink no longer wants its result
        self._is_awaited: bool = False  # whether the transport waits until less is unsent

    # Receiving

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

    def _fill(self, data: "bytes | memoryview", lent: "Lent | None") -> None:
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
        self.scheduler._unflushed += size
        self._schedule_flush()

    def write_some(self, item: Buffer) -> int:
        goal = self.sent + self.unsent
        self.flush()
        return self._send_some(item) if self.sent == goal else 0  # nothing may follow while earlier bytes are unsent

    def flush(self) -> None:
        if self.unsent == 0 or self._in_send:
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

    def _needs_turn_after(self, result: Any) -> bool:
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
                # asyncio would have offered it to the kernel by now.
                self._completions.begin_or_report(self.scheduler.call_exception_handler)
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
        read = "polling" if self.reading else "idle"
        write = "polling" if self._is_sending else "idle"
        return f"read={read} write=<{write}, bufsize={self.unsent}>"
