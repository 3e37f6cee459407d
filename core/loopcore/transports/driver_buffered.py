"""The part that both stream drivers share, independent of the port: system calls that do not wait, and the write queue.

The queue is either one item, the usual case, or a list of items: a list that fills and empties with each
message would allocate and free its table each time. The whole queue is sent in one vectored call.

Thread: the loop's own.
"""

import socket
from typing import TYPE_CHECKING, Any, Final

from loopcore.transports.buffers import MANY, join_last
from loopcore.transports.driver import Buffer, Sink, StreamDriver

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.cpython import raise_pending, size_of
    from cython.cimports.loopcore.native.sockets import send_many, send_one
    from cython.cimports.loopcore.transports.driver_buffered import (
        keep_received,
        let_go_of_single,
        receive_next,
        try_receive_behind,
        try_receive_into_buffer,
        try_send_single,
    )
else:
    from loopcore.native.interpreted_sockets import receive, receive_into, send_many, send_one

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler

VECTOR_LIMIT = MANY
_VECTOR_LIMIT = VECTOR_LIMIT
EXPECT_FROM: Final = 8 * 1024
"""After a message of this many bytes, another of that size is expected, and received into `bytes` without a copy."""
_EXPECT_FROM = EXPECT_FROM
_RECEIVE_FAILED, _CANNOT_GROW = -2, -3
READ_FAILED = "Fatal read error on socket transport"
WRITE_FAILED = "Fatal write error on socket transport"


class BufferedStreamDriver(StreamDriver):
    """A StreamDriver that has a write queue and can make the system calls itself."""

    __slots__ = ("_single", "_queue", "_head", "_flush_scheduled", "_expected", "_steady", "_peak", "_cut")

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        StreamDriver._prepare(self, scheduler, sink, sock, context)
        self._single: Buffer | None = None
        self._queue: list[Buffer] = []
        self._head: int = 0  # bytes of the first item already sent
        self._flush_scheduled: bool = False
        self._expected: int = 0
        """Expected size of the next message in bytes, if it is worth allocating `bytes` of that size; otherwise 0."""
        self._steady: bool = False
        """Whether the last two messages had the same size."""
        self._peak: int = 0
        """Bytes of the largest recent message: each smaller one halves it. Compiled only."""
        self._cut: int = -1
        """Whether the last receive stopped short of the available bytes; negative: not recorded. Compiled only."""

    def _append(self, item: Buffer) -> None:
        """Queue `item` behind everything unsent."""
        queue = self._queue
        if self._single is not None:
            queue.append(self._single)
            self._single = None
        queue.append(item)
        if len(queue) % _VECTOR_LIMIT == 0:
            join_last(queue)

    def _send_some(self, item: Buffer) -> int:
        """Send some of `item` now if nothing is unsent; return how many bytes were sent."""
        if self.unsent or self.sock is None:
            return 0
        try:
            sent: int = send_one(self.sock, self.fd, item, 0)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self.sink._failed(exc, WRITE_FAILED)
            return 0
        if sent <= 0:
            return 0
        self.count_sent(sent)
        return sent

    def _receive(self) -> int:
        """Receive once and pass the bytes to the sink; return how many there were."""
        if self.buffered:
            return self._receive_into_buffer()
        if cython.compiled:
            if self._expected:
                unread = self.sink._get_unread()
                if unread is not None:
                    nbytes: int = try_receive_behind(self, unread)
                    if nbytes != _CANNOT_GROW:
                        return self._take_unread(nbytes)
                elif self.buffered or not self.reading:  # `_get_unread` may have changed them
                    return self._receive_into_buffer() if self.reading else 0
            received = receive_next(self)
        else:
            received = receive(self.sock, self.fd, self.scheduler.receive_limit, self._expected)
        if type(received) is not bytes:
            if received is not None:
                self.sink._failed(received, READ_FAILED)
                received = None  # interpreted, its traceback holds this frame
            return 0
        nbytes = size_of(received) if cython.compiled else len(received)
        if nbytes:
            if cython.compiled:
                self._steady = nbytes == self._expected
                self._expected = nbytes if nbytes >= _EXPECT_FROM else 0
                self._peak = max(nbytes, self._peak >> 1)
            # Here and below, compiled, `+=` would first take a reference to the attribute's owner.
            self.received = self.received + nbytes
            self.scheduler.bytes_received = self.scheduler.bytes_received + nbytes
            self.sink._on_received(received)
            if cython.compiled:
                keep_received(received)  # a protocol that only reads it has released it by now
        else:
            self.sink._end_of_file()
        return nbytes

    def _take_unread(self, nbytes: int) -> int:
        """Count bytes that were received directly into the reader's buffer of unread bytes. Compiled only."""
        if nbytes > 0:
            self._steady = False  # describes only what `receive_next` received
            self._expected = nbytes if nbytes >= _EXPECT_FROM else 0
            self.received = self.received + nbytes
            self.scheduler.bytes_received = self.scheduler.bytes_received + nbytes
            self.sink._unread_grown()
            return nbytes
        if nbytes == 0:
            self.sink._end_of_file()
        elif nbytes == _RECEIVE_FAILED:
            self._receive_into(None)
        return 0

    def _receive_into_buffer(self) -> int:
        sink = self.sink
        buffer = sink._get_buffer()
        if buffer is None or not self.reading:  # get_buffer() may have closed or paused the transport
            return 0
        nbytes: int = try_receive_into_buffer(self, buffer) if cython.compiled else self._receive_into(buffer)
        if nbytes > 0:
            self.received = self.received + nbytes
            self.scheduler.bytes_received = self.scheduler.bytes_received + nbytes
            sink._buffer_updated(nbytes)
            return nbytes
        if nbytes == 0:
            sink._end_of_file()
        elif cython.compiled and nbytes == _RECEIVE_FAILED:
            self._receive_into(None)
        return 0

    def _receive_into(self, buffer: Any) -> int:
        """Receive into `buffer`, or fail. Compiled: only fail, with the exception pending."""
        try:
            if cython.compiled:
                raise_pending()
            else:
                return receive_into(self.sock, self.fd, buffer)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self.sink._failed(exc, READ_FAILED)
        return -1

    def shut_down_writing(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def _send_queued(self) -> None:
        """Send as much of the queue as the kernel takes now; `unsent` is what is left. Raises what the socket raises.

        Everything unsent must be in the queue.
        """
        if self._single is None:
            self._send_many()
            return
        self._note_single(send_one(self.sock, self.fd, self._single, self._head))

    def _send_single(self) -> int:
        """Send the single item. -1: the kernel took nothing; -2: an exception is pending. Compiled only."""
        sent: int = try_send_single(self)
        if sent == self.unsent:
            self.sent = self.sent + sent
            self.scheduler.bytes_sent = self.scheduler.bytes_sent + sent
            let_go_of_single(self)
            self._head = 0
            self.unsent = 0
        return sent

    def _note_single(self, sent: int) -> None:
        """Record that the kernel took `sent` bytes of the single item; -1 means none."""
        if sent > 0:
            self.sent += sent
            self.scheduler.bytes_sent += sent
        if sent == self.unsent:
            self._single = None
            self._head = 0
            self.unsent = 0
        elif sent > 0:
            self._head += sent
            self.unsent -= sent

    def _send_many(self) -> None:
        queue = self._queue
        while True:
            count = len(queue)
            sent = send_many(self.sock, self.fd, queue, self._head)
            if sent < 0:
                return
            self.count_sent(sent)
            self.unsent -= sent
            if self.unsent == 0:
                queue.clear()
                self._head = 0
                return
            self._drop(sent)
            if count <= VECTOR_LIMIT:
                return  # everything was offered and not all was taken: the next call would be refused

    def _take_first(self, limit: int) -> list[Buffer]:
        """Take the front of the queue for one vectored send: at most `limit` bytes after `_head`.

        The last item is split if necessary.
        """
        if self._single is not None:
            self._queue = [self._single]
            self._single = None
        queue = self._queue
        left = limit + self._head
        first: list[Buffer] = []
        for item in queue[:_VECTOR_LIMIT]:
            size = len(item)
            if size > left:
                break
            first.append(item)
            left -= size
        del queue[: len(first)]
        if left and queue and len(first) < _VECTOR_LIMIT:
            whole = memoryview(queue[0])
            first.append(whole[:left])
            queue[0] = whole[left:]
        return first

    def _drop(self, sent: int) -> None:
        """Remove the first `sent` bytes from the list, which holds more than that."""
        queue = self._queue
        gone = 0
        sent += self._head
        while True:
            size = len(queue[gone])
            if sent < size:
                break
            sent -= size
            gone += 1
        del queue[:gone]
        self._head = sent

    def _drop_all(self) -> None:
        self._single = None
        self._queue.clear()
        self._head = 0
        self.unsent = 0
