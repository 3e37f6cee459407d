"""TlsSending: how a TLS transport sends, pauses its protocol, and ends.

The *carrier* is the transport below, the engine (`tls_engine`) the TLS session. How a connection ends:

    close, the peer's close_notify, end of file below
        -> written bytes are encrypted and sent, then our close_notify; the peer's is awaited, for
           `shutdown_timeout` seconds in all; then the carrier is closed
    error, abort, a timeout
        -> the carrier is aborted; if TLS has an alert with the reason, it is sent first

Either way the carrier's `connection_lost` is the end, and calls that of the protocol above (`tls_connection`).

Backpressure: while the carrier has enough, nothing is encrypted, so only the program's bytes wait, which
the water marks count.

Writes of one tick are joined at its end and encrypted together. The ciphertext goes straight to the kernel if the
carrier is a StreamTransport with nothing waiting, and through the carrier's `write` otherwise.

Thread: the loop's own. Errors are asyncio's, and so are their texts.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from loopcore.log import logger
from loopcore.transports.clients import resolve
from loopcore.transports.flow import FlowControl
from loopcore.transports.lifecycle import LOST
from loopcore.transports.stream import StreamTransport
from loopcore.transports.tls_engine import DONE, FLUSHING, OPEN, SHUTDOWN, TlsEngine

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import run_in_context
else:
    from loopcore._native.interpreter import run_in_context

try:
    import ssl
except ImportError:  # a Python built without OpenSSL
    ssl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler
    from loopcore.transports.driver import StreamDriver
    from loopcore.transports.server import Server

HIGH_WATER: Final = 512 * 1024
"""The default high-water mark, asyncio's for TLS; the low-water mark is a quarter of it."""

HANDSHAKE_TIMEOUT: Final = 60.0
SHUTDOWN_TIMEOUT: Final = 30.0

HANDSHAKE_FAILED: Final = "SSL handshake failed"


class TlsSending(FlowControl):
    """A TLS session between a carrier and a protocol. Running it encrypts and sends what was written."""

    __slots__ = (
        "_engine",
        "_carrier",
        "_plain",
        "_server",
        "_waiter",
        "_timer",
        "_handshake_timeout",
        "_shutdown_timeout",
        "_lost_with",
        "_connected",
        "_eof_delivered",
        "_carrier_ended",
        "_carrier_full",
        "_lost",
        "_close_requested",
        "_paused",
        "_read_high_water",
        "_buffered",
        "_flush_scheduled",
        "_lost_writes",
        "_on_data",
        "_on_get_buffer",
        "_on_buffer_updated",
    )

    _default_high_water = HIGH_WATER

    def __init__(self, loop: "Scheduler", engine: TlsEngine, *, connected: bool) -> None:
        self._begin_flow(loop)
        self._set_limits(None, None)
        self._engine: TlsEngine = engine
        self._protocol: Any = None
        self._carrier: asyncio.Transport = None  # type: ignore[assignment]
        """The transport below, from `connection_made` on; kept for `get_extra_info` after the connection is lost."""
        self._plain: StreamTransport | None = None
        """The carrier, if it is loopcore's own and open."""
        self._server: Server | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._handshake_timeout: float = HANDSHAKE_TIMEOUT
        self._shutdown_timeout: float = SHUTDOWN_TIMEOUT
        self._lost_with: BaseException | None = None
        self._connected: bool = connected
        """Whether the protocol knows of the connection, and `connection_lost` must be called."""
        self._eof_delivered: bool = False
        self._carrier_ended: bool = False
        """Whether the carrier will receive nothing more."""
        self._carrier_full: bool = False
        """Whether the carrier has paused writing."""
        self._lost: bool = False
        self._close_requested: bool = False
        """Whether another thread has closed it and the loop's thread has yet to act."""
        self._paused: bool = False
        self._read_high_water: int = 0
        self._buffered: bool = False
        self._flush_scheduled: bool = False
        self._lost_writes: int = 0
        self._on_data: Any = None
        self._on_get_buffer: Any = None
        self._on_buffer_updated: Any = None

    # Writing

    def _run(self) -> None:
        self._flush_scheduled = False
        if self._protocol_paused:
            # The protocol will be called. This runs outside of any callback, so the context is free.
            run_in_context(self._context, self._run_flush, ())
        else:
            self._flush()

    def _run_flush(self) -> None:
        self._flush()

    def _flush(self) -> None:
        """Encrypt and send as much of the queue as the carrier takes; continue closing when all is sent."""
        engine = self._engine
        if self._carrier is None or engine.state == DONE:
            return
        try:
            while not self._carrier_full:
                data = engine.take_ciphertext()
                if not data:
                    break
                self._send(data)
                if not engine.unencrypted:
                    break  # `data` was all there was
                if self._plain is not None and self._plain._state >= LOST:
                    break  # the rest cannot be sent: `connection_lost` is scheduled
        except Exception as exc:
            self._fail(exc, "Fatal error on SSL protocol")
            return
        try:
            if self._protocol_paused and engine.unencrypted <= self._low_water:
                self._resume_protocol()
        finally:
            if engine.state == FLUSHING and not self._carrier_full and engine.unencrypted == 0:
                self._send_close_notify()

    def _send(self, data: bytes) -> None:
        plain = self._plain
        if plain is not None and not plain._refuses:
            # At once: the writes of this tick are joined already, and scheduling would delay them by a tick.
            driver: StreamDriver = plain._driver
            sent = driver.write_some(data)
            if sent == len(data):
                return
            if sent:
                self._carrier.write(memoryview(data)[sent:])
                return
        self._carrier.write(data)

    def _unsent(self) -> int:
        return self._engine.unencrypted

    def _offer(self) -> None:
        self._flush()

    # The end

    def _begin_closing(self) -> None:
        """Accept no more writes, send the queue, and then close_notify. Idempotent."""
        engine = self._engine
        state = engine.state
        if state > OPEN:
            return
        if state < OPEN:
            self._force_close(None)
            return
        engine.begin_close()
        self._timer = self._loop.call_later(self._shutdown_timeout, self._shutdown_timed_out, context=self._context)
        self._flush()
        if engine.state == FLUSHING:
            self._carrier.pause_reading()  # received bytes will not be read, and would pile up

    def _send_close_notify(self) -> None:
        """Send our close_notify, and wait for the peer's if it has not arrived yet."""
        engine = self._engine
        if self._carrier_ended:
            self._finish()
            return
        try:
            engine.notify()
            data = engine.take_ciphertext()
        except ssl.SSLError as exc:
            self._fail(exc, "Fatal error on transport")
            return
        if data:
            self._send(data)
        if engine.peer_closed:
            self._finish()
        elif not self._carrier.is_reading():
            self._carrier.resume_reading()

    def _shutdown_timed_out(self) -> None:
        self._timer = None
        if self._engine.state == FLUSHING or self._engine.state == SHUTDOWN:
            self._force_close(TimeoutError("SSL shutdown timed out"))

    def _finish(self) -> None:
        """End a session that was closed cleanly. The carrier sends its rest, then closes."""
        self._cancel_timer()
        self._engine.end()
        self._carrier.close()

    def _fail(self, exc: BaseException, message: str) -> None:
        """End the connection with `exc`; it is reported unless it is an OSError or a cancellation."""
        if not isinstance(exc, OSError):
            if not isinstance(exc, asyncio.CancelledError):
                self._report(exc, message)
        elif self._loop.get_debug():
            logger.debug("%r: %s", self, message, exc_info=exc)
        if isinstance(exc, ssl.SSLError):
            exc.__traceback__ = None  # its frames refer back to this object, and the program may keep the error
        alert = self._engine.take_outgoing() if isinstance(exc, ssl.SSLError) else b""
        if alert and not self._carrier_full and not self._lost:
            self._send(alert)
        self._force_close(exc)

    def _protocol_failed(self, exc: BaseException, method: str) -> None:
        self._flush()  # asyncio's `write` would have sent it by now
        self._fail(exc, f"Fatal error: protocol.{method}() call failed.")

    def _force_close(self, exc: BaseException | None) -> None:
        self._cancel_timer()
        self._engine.end()
        if self._lost:
            return
        if self._lost_with is None and self._carrier is not None and not self._carrier.is_closing():
            self._lost_with = exc  # only the first reason is reported
        if exc is not None:
            self._wake_waiter(exc)
        if self._carrier is not None:
            self._carrier.abort()

    def _wake_waiter(self, exc: BaseException | None) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():
            return
        if exc is None:
            resolve(waiter)
        else:
            waiter.set_exception(exc)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
