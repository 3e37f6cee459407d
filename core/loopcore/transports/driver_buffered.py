"""The part that both stream drivers share, independent of the port: system calls that do not wait, and the write queue.

The queue is either one item, the usual case, or a list of items: a list that fills and empties with each
message would allocate and free its table each time. The whole queue is sent in one vectored call.

Thread: the loop's own.
"""

import socket
from typing import TYPE_CHECKING, Final

from loopcore.transports.buffers import VECTOR_LIMIT, Buffer, join_last
from loopcore.transports.driver import Sink, StreamDriver

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.sockets import receive, receive_behind, receive_into, send_many, send_one
else:
    from loopcore._native.sockets import receive, receive_behind, receive_into, send_many, send_one

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler

_VECTOR_LIMIT = VECTOR_LIMIT
RECEIVE_SIZES: Final = (16 * 1024, 64 * 1024, 120 * 1024)
"""Bytes requested by a receive: small, medium, large. The small size is copied exactly; the large one is below 128 KiB,
from which on malloc uses mmap(2) (docs/adr/0011)."""
_SMALL, _MEDIUM, _LARGE = RECEIVE_SIZES
READ_FAILED = "Fatal read error on socket transport"
WRITE_FAILED = "Fatal write error on socket transport"


class BufferedStreamDriver(StreamDriver):
    """A StreamDriver that has a write queue and can make the system calls itself."""

    __slots__ = ("_single", "_queue", "_head", "_in_send", "_flush_scheduled", "_peak", "_is_pipe")

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        StreamDriver._prepare(self, scheduler, sink, sock, context)
        self._single: Buffer | None = None
        self._queue: list[Buffer] = []
        self._head: int = 0  # bytes of the first item already sent
        self._in_send: bool = False
        """Whether `_send_queued` runs: a finalizer that flushes then must not send the same bytes again."""
        self._flush_scheduled: bool = False
        self._peak: int = 0
        """Bytes of the largest recent receive, an eighth less with each smaller one: it chooses the next size."""
        self._is_pipe: bool = False
        """Whether the descriptor is a pipe's or a device's: read(2) and writev(2), not recv(2) and sendmsg(2)."""

    def _append(self, item: Buffer) -> None:
        """Queue `item` behind everything unsent."""
        queue = self._queue
        if self._single is not None:
            queue.append(self._single)
            self._single = None
        queue.append(item)
        if len(queue) % _VECTOR_LIMIT == 0:
            join_last(queue)

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self.scheduler._flush_soon(self.sink)

    def _send_some(self, item: Buffer) -> int:
        """Send some of `item` now if nothing is unsent; return how many bytes were sent."""
        if self.unsent or self.sock is None:
            return 0
        try:
            sent: int = send_one(self.sock, self.fd, item, 0, self._is_pipe)
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
        if self._peak >= _SMALL:
            unread = self.sink._get_unread()
            if self.buffered or not self.reading:  # `_get_unread` may have changed them
                return self._receive_into_buffer() if self.reading else 0
            if unread is not None:
                return self._receive_behind(unread)
        return self._receive_bytes()

    def _receive_bytes(self) -> int:
        try:
            data = receive(self.sock, self.fd, self._receive_size(), self._is_pipe)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self.sink._failed(exc, READ_FAILED)
            return 0
        if data is None:
            return 0
        nbytes = len(data)
        if nbytes:
            self._record(nbytes)
            self.sink._on_received(data)
        else:
            self.sink._end_of_file()
        return nbytes

    def _receive_behind(self, unread: bytearray) -> int:
        """Receive directly behind a reader's unread bytes."""
        try:
            nbytes: int = receive_behind(self.sock, self.fd, self._receive_size(), unread)
        except BufferError:  # the program has exported it: the reader will raise this when it takes the bytes
            return self._receive_bytes()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self.sink._failed(exc, READ_FAILED)
            return 0
        if nbytes > 0:
            self._record(nbytes)
            self.sink._unread_grown()
        elif nbytes == 0:
            self.sink._end_of_file()
        return max(nbytes, 0)

    def _receive_into_buffer(self) -> int:
        sink = self.sink
        buffer = sink._get_buffer()
        if buffer is None or not self.reading:  # get_buffer() may have closed or paused the transport
            return 0
        try:
            nbytes: int = receive_into(self.sock, self.fd, buffer)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            sink._failed(exc, READ_FAILED)
            return 0
        if nbytes > 0:
            self._record(nbytes)
            sink._buffer_updated(nbytes)
        elif nbytes == 0:
            sink._end_of_file()
        return max(nbytes, 0)

    def _receive_size(self) -> int:
        """Return how many bytes the next receive requests: more than the largest recent one, up to the limit."""
        size = _SMALL if self._peak < _SMALL else _MEDIUM if self._peak < _MEDIUM else _LARGE
        limit = self.scheduler.receive_limit
        return min(size, limit) if limit > 0 else size

    def _record(self, nbytes: int) -> None:
        """Count received bytes, and note their number for the size of the next receive."""
        peak = 2 * nbytes if nbytes >= self._receive_size() else nbytes  # a full one may have left as much again
        self._peak = max(peak, self._peak - (self._peak >> 3))
        # Compiled, `+=` would first take a reference to the attribute's owner.
        self.received = self.received + nbytes
        self.scheduler._bytes_received = self.scheduler._bytes_received + nbytes

    def shut_down_writing(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def _send_queued(self) -> None:
        """Send as much of the queue as the kernel takes now; `unsent` is what is left. Raises what the socket raises.

        Everything unsent must be in the queue.
        """
        self._in_send = True
        try:
            if self._single is None:
                self._send_many()
            else:
                self._send_single()
        finally:
            self._in_send = False

    def _send_single(self) -> None:
        sent = send_one(self.sock, self.fd, self._single, self._head, self._is_pipe)
        if sent > 0:
            self.sent = self.sent + sent
            self.scheduler._bytes_sent = self.scheduler._bytes_sent + sent
        if self._single is None:
            return  # a finalizer has dropped the queue
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
            sent = send_many(self.sock, self.fd, queue, self._head, self._is_pipe)
            if sent < 0:
                return
            self.count_sent(sent)
            if not queue:
                return  # a finalizer has dropped it
            self.unsent -= sent
            if self.unsent == 0:
                queue.clear()
                self._head = 0
                return
            self._drop(sent)
            if count <= _VECTOR_LIMIT:
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
