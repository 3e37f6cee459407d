"""StreamTransport: asyncio's transport for a connected TCP or Unix socket.

Programs see asyncio's selector transport: the same calls in the same order, the same errors. There are two
differences. Writes of one tick are joined and sent together at its end (or after the `data_received`
that made them, or when they pass 64 KiB, or at `close`, `write_eof`), so the write buffer's size counts them until
then. All methods of the protocol run in one context, the copy taken when the transport was made.

isinstance(transport, asyncio.Transport) holds through `__class__`. Inheriting is impossible: a compiled class with
attributes and asyncio's class with its slot have no common layout ("multiple bases have instance lay-out
conflict").

Thread: the loop's own. Errors of the protocol and of the socket end the connection; `connection_lost` receives the
error.
"""

import asyncio
import socket
from asyncio import BufferedProtocol, constants
from typing import TYPE_CHECKING, Any, Final

from loopcore.log import logger
from loopcore.transports.buffers import VECTOR_LIMIT, immutable, join_small
from loopcore.transports.clients import attach, needs_no_delay, resolve
from loopcore.transports.driver import StreamDriver
from loopcore.transports.lifecycle import LOST, OPEN, Connection, disable_nagle, initial_extra_info
from loopcore.transports.reader_feed import ReaderFeed, feed_of

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.transports.driver_choice import make_stream_driver
else:
    from loopcore.transports.driver_choice import make_stream_driver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopcore.kernel.scheduler import Scheduler
    from loopcore.transports.server import Server

LOST_WRITES_BEFORE_WARNING: Final = 5
"""Writes to a lost connection that are silent: the protocol may not have learned of the loss yet."""


class StreamTransport(Connection):
    """A stream of bytes in both directions, over a connected, non-blocking socket that the transport owns from now on.

    Schedules `protocol.connection_made`, then the start of reading, then the result of `waiter`.
    """

    __slots__ = (
        "_on_data",
        "_feed",
        "_on_get_buffer",
        "_on_buffer_updated",
        "_lost_writes",
        "_eof_written",
        "_eof_received",
    )

    _start_tls_compatible = True
    _sendfile_compatible = constants._SendfileMode.TRY_NATIVE

    def _open(
        self,
        scheduler: "Scheduler",
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        waiter: "asyncio.Future[None] | None",
        extra: dict[str, Any] | None,
        server: "Server | None",
    ) -> None:
        connection_made = protocol.connection_made  # fails first for an object that is not a protocol
        self._begin(scheduler, initial_extra_info(sock, extra))
        self._on_data: Any = None
        self._on_get_buffer: Any = None
        self._on_buffer_updated: Any = None
        self._lost_writes: int = 0
        self._eof_written: bool = False
        self._eof_received: bool = False
        if needs_no_delay(server):
            disable_nagle(sock)
        self._driver: StreamDriver = make_stream_driver(scheduler, self, sock, self._context)
        self.set_protocol(protocol)
        if server is not None:
            attach(server, self)
            self._server = server
        self._open_soon(connection_made, waiter)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Call `protocol` from now on; received bytes that were not delivered yet go to it."""
        driver = self._driver
        self._protocol = protocol
        buffered = isinstance(protocol, BufferedProtocol)
        # Bound methods, looked up once instead of for each message. A write-only protocol may lack them.
        self._feed: ReaderFeed | None = None if buffered else feed_of(protocol)
        self._on_data = None if buffered else getattr(self._feed or protocol, "data_received", None)
        self._on_get_buffer = protocol.get_buffer if buffered else None  # type: ignore[attr-defined]
        self._on_buffer_updated = protocol.buffer_updated if buffered else None  # type: ignore[attr-defined]
        driver.buffered = buffered

    # Reading

    def _start_receiving(self) -> None:
        if not self._eof_received:
            self._driver.start_reading()

    def _on_received(self, data: bytes) -> None:
        try:
            self._on_data(data)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._protocol_failed(exc, "data_received")

    def _protocol_failed(self, exc: BaseException, method: str) -> None:
        if self._state == OPEN:
            self._driver.flush()  # asyncio's `write` would have sent it by now
        self._failed(exc, f"Fatal error: protocol.{method}() call failed.")

    def _get_buffer(self) -> Any:
        try:
            buffer = self._on_get_buffer(-1)
            if not len(buffer):
                raise RuntimeError("get_buffer() returned an empty buffer")
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._protocol_failed(exc, "get_buffer")
            return None
        return buffer

    def _get_unread(self) -> bytearray | None:
        feed = self._feed  # kept alive during the call; the result counts only if it is still the protocol's feed
        if feed is None:
            return None
        unread = feed.get_unread()
        return unread if feed is self._feed else None

    def _unread_grown(self) -> None:
        feed = self._feed  # kept alive: the call may give the transport another protocol
        if feed is None:
            return
        try:
            feed.grew()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._protocol_failed(exc, "data_received")

    def _buffer_updated(self, nbytes: int) -> None:
        try:
            self._on_buffer_updated(nbytes)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._protocol_failed(exc, "buffer_updated")

    def _end_of_file(self) -> None:
        if self._loop._slow_path_flags and self._loop.get_debug():
            logger.debug("%r received EOF", self)
        self._eof_received = True
        try:
            keep_open = self._protocol.eof_received()  # type: ignore[attr-defined]
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._protocol_failed(exc, "eof_received")
            return
        if keep_open:
            self._driver.stop_reading()
        else:
            self.close()

    # Writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send `data`, near the end of this tick at the latest. No effect if it is empty or the connection is lost.

        Raises TypeError if `data` is not bytes-like, RuntimeError after `write_eof`.
        """
        if type(data) is not bytes:
            self._write_other(data)
            return
        size = len(data)
        if self._refuses and self._refuse("write()", "write", size):
            return
        if size == 0:
            return
        driver: StreamDriver = self._driver
        driver.write(data, size)
        if driver.unsent > self._join_limit:
            self._maybe_pause_writing()

    def writelines(self, list_of_data: "Iterable[bytes | bytearray | memoryview]") -> None:
        """Send the buffers one after the other, together. Otherwise as `write`."""
        items = [immutable(data) for data in list_of_data]
        if self._refuses and self._refuse("writelines()", "writelines", len(items)):
            return
        driver = self._driver
        for item in items if len(items) <= VECTOR_LIMIT else join_small(items):
            size = len(item)
            if size:
                driver.write(item, size)
        if driver.unsent > self._join_limit:
            self._maybe_pause_writing()

    def _write_other(self, data: "bytes | bytearray | memoryview") -> None:
        """Write a bytes-like object that is not exactly bytes: mutable data must not be kept."""
        driver = self._driver
        if isinstance(data, bytearray) and len(data) > self._join_limit and not self._refuses:
            # Large: offer it to the kernel first, and copy only the rest.
            with memoryview(data) as view:
                sent = driver.write_some(view)
                with view[sent:] as rest:
                    data = b"" if self._state >= LOST else rest.tobytes()
        item = immutable(data)
        size = len(item)
        if self._refuses and self._refuse("write()", "write", size):
            return
        if size:
            driver.write(item, size)
            if driver.unsent > self._join_limit:
                self._maybe_pause_writing()

    def _refuse(self, name: str, verb: str, size: int) -> bool:
        """Raise RuntimeError if writing is an error now; otherwise return whether the write is to be ignored.

        An ignored write is counted, unless it is empty.
        """
        if self._eof_written:
            raise RuntimeError(f"Cannot call {name} after write_eof()")
        if self._empty_waiter is not None:
            raise RuntimeError(f"unable to {verb}; sendfile is in progress")
        if self._state < LOST:
            return False
        if size == 0:
            return True
        self._lost_writes += 1
        if self._lost_writes >= LOST_WRITES_BEFORE_WARNING:
            logger.warning("socket.send() raised exception.")
        return True

    def can_write_eof(self) -> bool:
        """Return True: `write_eof` is possible, as a stream socket can be half closed."""
        return True

    def write_eof(self) -> None:
        """Send the end of the stream once all is sent; receiving continues. Raises OSError if shutdown(2) fails."""
        if self._state != OPEN or self._eof_written:
            return
        self._eof_written = True
        self._refuses = True
        self._driver.flush()
        if self._state != OPEN:
            return
        if self._driver.unsent:
            self._awaits_drain = True
        else:
            self._driver.shut_down_writing()

    def _drained(self) -> None:
        if self._empty_waiter is not None:
            resolve(self._empty_waiter)
        if self._state == OPEN and self._eof_written:
            try:
                self._driver.shut_down_writing()
            except OSError as exc:
                self._failed(exc, "Fatal write error on socket transport")
        else:
            Connection._drained(self)

    def _make_empty_waiter(self) -> "asyncio.Future[None]":
        """Return a future that is resolved when all is sent; until `_reset_empty_waiter` nothing can be written."""
        if self._empty_waiter is not None:
            raise RuntimeError("Empty waiter is already set")
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._empty_waiter = waiter
        self._refuses = True
        self._driver.flush()
        if self._driver.unsent:
            self._awaits_drain = True
        else:
            resolve(waiter)
        return waiter

    def _end_with_connection(self, future: "asyncio.Future[Any]") -> None:
        """Let `future` fail if the connection is lost before it is done; for sendfile, after `_make_empty_waiter`."""
        self._empty_waiter = future

    def _reset_empty_waiter(self) -> None:
        self._empty_waiter = None
        self._refuses = self._eof_written or self._state >= LOST

    def _drop_references(self) -> None:
        Connection._drop_references(self)
        self._on_data = self._feed = self._on_get_buffer = self._on_buffer_updated = None
