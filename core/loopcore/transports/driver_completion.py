"""The driver for completion ports: one operation that receives, one that sends, both used again and again.

Receiving is an Inflow's. Large messages are better received one after the other, each before the next, straight into a
buffer that is in the processor's cache: while they come, and where that costs no system call of its own, the Inflow
polls, and the driver receives for itself, as the one for readiness does. What is lent stays in the port's memory
until it is copied into a BufferedProtocol's buffer, in several rounds if that is smaller.

A Poll for edges tells of what arrives, not of what is still there. A receive that had room for more has emptied the
socket; after one that had not, or once the peer's end was seen, the driver goes on in the next tick. That is so for
TCP and `bytes`. From other sockets a receive may stop short of the end, where descriptors are passed for example, and
the buffer of a protocol may be smaller than what there is: so those are polled each time.

Sending: where polls are cheap what was written is sent by send(2) near the end of its tick, or, compiled, after the
result that it answers (docs/adr/0044); only what is refused becomes a Send. Elsewhere little leaves as one Send. While
one is in flight, what is written behind it waits: two sends at a time could overtake each other. Who must know now
whether the kernel has room calls `flush`, which asks it by send(2) as long as nothing is in flight.

That also says who waits for a Send. After a `flush` that left something the transport does; and whatever is written
behind a Send does. The success of any other is `quiet`: it need not end the loop's wait, and has no turn of its own.

`unsent` counts what the port has not said to be sent. What a Send holds belongs to the port until it has ended: it is
replaced, not changed.
"""

import socket
from typing import TYPE_CHECKING, Any, Final

from loopcore.interest import ERROR, HANGUP, READ
from loopcore.kernel.completions import Completions
from loopcore.operations import Poll, Receive, Send
from loopcore.transports.driver import Buffer, Sink
from loopcore.transports.driver_queue import READ_FAILED, VECTOR_LIMIT, WRITE_FAILED, QueueingDriver
from loopcore.transports.inflow import Inflow

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.cpython import raise_pending
    from cython.cimports.loopcore.native.flushes import take_only
    from cython.cimports.loopcore.native.sockets import copy_into
else:
    from loopcore.native.interpreted_sockets import copy_into

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler

RECEIVE_LIMIT: Final = 120 * 1024
"""Bytes of one result at most: below 128 KiB, where malloc turns to mmap(2) (docs/adr/0005)."""

AWAITED_LIMIT: Final = 256 * 1024
"""Bytes of one Send while the transport waits for room. A port may end it only when all is sent."""

LARGE: Final = 16 * 1024
"""A result of so many bytes makes the driver receive for itself what comes next, if the port polls cheaply."""

SMALL: Final = 8 * 1024
SMALL_ONES: Final = 16
"""After so many results in a row that are below SMALL the port receives again."""

DIRECT: Final = 8 * 1024
"""Where polls are not cheap, so many bytes of one tick are sent at once too: their memory is used again sooner."""

_VECTOR_LIMIT, _AWAITED_LIMIT, _RECEIVE_LIMIT = VECTOR_LIMIT, AWAITED_LIMIT, RECEIVE_LIMIT
_LARGE, _SMALL, _SMALL_ONES, _DIRECT = LARGE, SMALL, SMALL_ONES, DIRECT
_ENDING = ERROR | HANGUP
_FAILED, _UNTRIED = -2, -3


class CompletionDriver(QueueingDriver):
    """One connected, non-blocking socket over a completion port. The contract is StreamDriver's."""

    __slots__ = (
        "_completions",
        "_receiving",
        "_inflow",
        "_sending",
        "_in_flight",
        "_is_sending",
        "_is_counted",
        "_is_dropped",
        "_is_awaited",
        "_polling",
        "_small_ones",
        "_is_ending",
    )

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        QueueingDriver._prepare(self, scheduler, sink, sock, context)
        self._completions: Completions = scheduler.completions
        self._receiving: Receive = Receive(self.fd, RECEIVE_LIMIT)
        self._inflow: Inflow = Inflow(scheduler, self, self._receiving)
        self._sending: Send = Send(self.fd)
        self._in_flight: int = 0
        """Bytes that `_sending` is about; 0 if nobody wants to know any more what becomes of them."""
        self._is_sending: bool = False  # whether `_sending` is the port's, or has ended and was not dispatched yet
        self._is_counted: bool = False  # whether what it has sent is accounted for, and its turn has yet to come
        self._is_dropped: bool = False  # whether nobody above wants to hear of it any more
        self._is_awaited: bool = False  # whether the transport waits until less is unsent
        self._polling: Poll | None = None  # asked for instead of `_receiving` while messages are large
        self._small_ones: int = 0
        self._is_ending: bool = False  # whether a poll has seen an error or the end, and perhaps no receive yet

    # Receiving

    def start_reading(self) -> None:
        if not self.reading:
            if not self._receiving.pending:
                self._receiving.lend = self.buffered and not self._completions.polls_cheaply
            self.reading = True
            self._inflow.start()

    def stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            self._inflow.stop()

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
                self._weigh(size)
        elif isinstance(result, OSError):
            sink._failed(result, READ_FAILED)
        elif isinstance(result, int):
            self._receive_once(result)
        else:
            self._fill(result.view, result)

    def _receive_once(self, bits: int) -> None:
        """Receive after a poll that has said `bits`, and go on later if something may be left that it will not tell."""
        if bits & _ENDING:
            self._is_ending = True
        # What there was room for is known of receives of our own only. Asked before: the protocol may change either.
        room = 1 if self.buffered else min(self.scheduler.receive_limit, _RECEIVE_LIMIT)
        try:
            self._steady = False  # or nobody knew whether that was all
            size = self._receive()
        except BaseException:
            if self.reading:
                self._inflow.go_on()  # SystemExit or KeyboardInterrupt: nobody knows what is left
            raise
        self._weigh(size)
        is_left = size > 0 and (size >= room or self._is_ending)
        if is_left and self._polling is not None and self._polling.edges and self.reading:
            self._inflow.go_on()

    def _weigh(self, size: int) -> None:
        """Decide, by the size of what has come in, who receives what comes next."""
        if self._polling is None:
            if size >= _LARGE and self.reading and self._completions.polls_cheaply:
                self._small_ones = 0
                self._polling = Poll(self.fd, READ, edges=not self.buffered and self._is_tcp())
                self._inflow.use(self._polling)
        elif size >= _SMALL:
            self._small_ones = 0
        else:
            self._small_ones += 1
            if self._small_ones >= _SMALL_ONES and self.reading:
                self._polling = None
                self._receiving.lend = False
                self._inflow.use(self._receiving)

    def _is_tcp(self) -> bool:
        # A receive from SCTP ends with its message. 0 is the default, TCP in the Internet's families.
        return self.sock.proto in (0, socket.IPPROTO_TCP) and int(self.sock.family) in (socket.AF_INET, socket.AF_INET6)

    def _fill(self, data: Any, lent: Any) -> None:
        """Copy `data` into the protocol's buffers. What it does not want any more is held, or goes where it does."""
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
                self._arrived(rest)  # the protocol was changed in the middle
            elif rest is not None:
                self._inflow.hold_first(rest)
        # Straight into small buffers it would take a system call for each of them.
        self._weigh(largest if largest < _SMALL else size)

    # Sending

    def write(self, item: Buffer, size: int) -> None:
        if self.unsent == self._in_flight:
            self._single = item
        else:
            if self._single is not None:
                self._queue.append(self._single)
                self._single = None
            self._queue.append(item)
        self.unsent += size
        if self._is_sending:
            self._sending.quiet = False
            return
        self.scheduler.unflushed += size
        if not self._turn_asked:
            self._turn_asked = True
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
        if not self._turn_asked or not self._completions.polls_cheaply or self.scheduler._observed:
            return
        if not take_only(self.scheduler._flushes, self.sink):  # None after `release`
            return
        self.scheduler.tally.callbacks += 1
        self.scheduler.unflushed = 0
        self.take_turn()

    def take_turn(self) -> None:
        self._turn_asked = False
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
        self._is_sending = True

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
            self._note_sent(0 if isinstance(result, OSError) else result)  # not noted, if a signal came between
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
        self._inflow.release()
        self.sock = None  # type: ignore[assignment]
        self.sink = None  # type: ignore[assignment]
        sock.close()

    def describe(self) -> str:
        read, write = ["polling" if is_asked else "idle" for is_asked in (self.reading, self._is_sending)]
        return f"read={read} write=<{write}, bufsize={self.unsent}>"
