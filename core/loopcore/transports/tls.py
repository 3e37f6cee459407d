"""SSLTransport: asyncio's TLS transport, with fewer surprises.

Its name says SSL because libraries look for that in the name of a transport's type.

The differences from asyncio's are these (docs/adr/0013): writes of one tick are encrypted together at its end; after
`close` no data is delivered any more, and a peer that goes on sending ends the connection without an error; a
failure in TLS sends the peer an alert before the connection ends; `get_extra_info` still works afterwards.

isinstance(transport, asyncio.Transport) holds through `__class__`, as for StreamTransport; the class is that of
asyncio's TLS transports.

Thread: the loop's own. Sizes are in bytes, timeouts in seconds.
"""

import asyncio
import warnings
from asyncio import BufferedProtocol, constants
from asyncio.sslproto import _SSLProtocolTransport
from typing import TYPE_CHECKING, Any, Final

from loopcore.log import logger
from loopcore.transports.buffers import immutable
from loopcore.transports.clients import attach, detach
from loopcore.transports.flow import fire_dropped_hook, fire_transport_hook, water_marks, whole_bytes
from loopcore.transports.reader_feed import feed_of
from loopcore.transports.stream import LOST_WRITES_BEFORE_WARNING
from loopcore.transports.tls_connection import TlsConnection
from loopcore.transports.tls_engine import NAMES, OPEN, TlsEngine

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

    from loopcore.kernel.scheduler import Scheduler
    from loopcore.transports.server import Server

SESSION_FACTS: Final = ("peercert", "cipher", "compression")
"""Names for which `get_extra_info` asks the TLS session."""


class SSLTransport(TlsConnection):
    """A stream of bytes in both directions, encrypted over another transport, of which this is the protocol.

    `connected` says that `protocol` knows of the connection (start_tls); otherwise its `connection_made` is called
    after the handshake. `waiter` is resolved then, or fails with the handshake's error.

    Raises what `SSLContext.wrap_bio` raises.
    """

    __slots__ = ("_sslcontext", "_read_limits")

    _start_tls_compatible = True
    _sendfile_compatible = constants._SendfileMode.FALLBACK

    def __init__(
        self,
        loop: "Scheduler",
        protocol: asyncio.BaseProtocol,
        sslcontext: "ssl.SSLContext",
        *,
        server_side: bool,
        server_hostname: str | None,
        handshake_timeout: float,
        shutdown_timeout: float,
        connected: bool = False,
        waiter: "asyncio.Future[Any] | None" = None,
        server: "Server | None" = None,
    ) -> None:
        TlsConnection.__init__(self, loop, TlsEngine(sslcontext, server_side, server_hostname), connected=connected)
        self._sslcontext = sslcontext
        self._read_limits: tuple[float, float] = (0, 0)
        self._handshake_timeout = handshake_timeout
        self._shutdown_timeout = shutdown_timeout
        self._waiter = waiter
        self.set_protocol(protocol)
        if server is not None:
            attach(server, self)
            self._server = server

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return _SSLProtocolTransport  # an asyncio.Transport with "ssl" in its name, which programs look for

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {NAMES[self._engine.state]} over {self._carrier!r}>"

    def __del__(self) -> None:
        server = getattr(self, "_server", None)  # absent if the constructor failed
        if server is not None:
            detach(server, self)
        if getattr(self, "_carrier", None) is not None and self._engine.state <= OPEN:
            warnings.warn(f"unclosed transport {self!r}", ResourceWarning, stacklevel=1, source=self)
            self._cancel_timer()
            if self._engine.agreed:
                fire_dropped_hook(self)

    @property
    def _ssl_protocol(self) -> "SSLTransport":
        """The carrier's protocol, under the name that libraries look up in asyncio's TLS transport."""
        return self

    # Facts

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return "sslcontext"; "ssl_object", "peercert", "cipher", "compression" once agreed on; or the carrier's."""
        engine = self._engine
        if name == "sslcontext":
            return self._sslcontext
        if engine.agreed:
            if name == "ssl_object":
                return engine.tls
            if name in SESSION_FACTS:
                return engine.fact(name)
        if self._carrier is None:
            return default
        return self._carrier.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the current protocol; None once the connection is lost."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Call `protocol` from now on; received bytes that were not delivered yet go to it."""
        self._protocol = protocol
        buffered = isinstance(protocol, BufferedProtocol)
        # A write-only protocol may lack these.
        self._on_data = None if buffered else getattr(feed_of(protocol) or protocol, "data_received", None)
        self._on_get_buffer = protocol.get_buffer if buffered else None  # type: ignore[attr-defined]
        self._on_buffer_updated = protocol.buffer_updated if buffered else None  # type: ignore[attr-defined]
        self._buffered = buffered

    # Reading

    def is_reading(self) -> bool:
        """Return whether incoming bytes reach the protocol."""
        return self._engine.state <= OPEN and not self._paused

    def pause_reading(self) -> None:
        """Deliver nothing, which holds up the peer, at once or at the water mark. No effect when closing or paused."""
        if self._engine.state <= OPEN and not self._paused:
            self._paused = True
            self._limit_received()
            if self._loop._watching_transports:
                fire_transport_hook(self, "paused", "reading")

    def resume_reading(self) -> None:
        """Undo `pause_reading`. No effect when closing or not paused."""
        if self._engine.state <= OPEN and self._paused:
            self._paused = False
            if self._carrier is not None:
                self._carrier.resume_reading()
            if self._loop._watching_transports:
                fire_transport_hook(self, "resumed", "reading")
            # Bytes received earlier wait as ciphertext; they must not be delivered from inside this call.
            self._loop.call_soon(self._read_on, context=self._context)

    def get_read_buffer_size(self) -> int:
        """Return how many bytes were received and not yet decrypted."""
        return self._engine.received_size()

    def get_read_buffer_limits(self) -> tuple[float, float]:
        """Return the low-water and the high-water mark of reading, unchanged from the setting."""
        return self._read_limits

    def set_read_buffer_limits(self, high: "float | None" = None, low: "float | None" = None) -> None:
        """Set how many bytes may be received while reading is paused; by default none. Otherwise as for writing.

        The low-water mark has no effect: waiting bytes are delivered all at once when reading is resumed.
        """
        self._read_limits = water_marks(high, low, 0)
        self._read_high_water = whole_bytes(self._read_limits)[1]
        if self._paused and self._engine.state <= OPEN and self._carrier is not None:
            self._carrier.resume_reading()
            self._limit_received()

    def take_early(self, data: bytes, ended: bool) -> None:
        """Take in bytes that the peer sent before `connection_made`; `ended` says that nothing will follow."""
        self._engine.receive(data)
        self._carrier_ended = ended

    # Writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send `data`, near the end of this tick at the latest.

        No effect if it is empty or the transport is closing. Raises TypeError if `data` is not bytes-like.
        """
        if type(data) is not bytes:
            if not isinstance(data, bytes | bytearray | memoryview):
                raise TypeError(f"data: expecting a bytes-like instance, got {type(data).__name__}")
            data = immutable(data)
        size = len(data)
        if size == 0:
            return
        engine = self._engine
        if engine.state > OPEN:
            self._count_lost_write()
            return
        engine.write(data, size)
        if engine.unencrypted > self._join_limit:
            self._maybe_pause_writing()
        elif not self._carrier_full:
            self._loop._unflushed = self._loop._unflushed + size
            if not self._flush_scheduled:
                self._flush_scheduled = True
                self._loop._flush_soon(self)

    def writelines(self, list_of_data: "Iterable[bytes | bytearray | memoryview]") -> None:
        """Encrypt and send the buffers one after the other, together. Otherwise as `write`."""
        if self._engine.state > OPEN:
            self._count_lost_write()  # one, however many buffers
            return
        for data in list_of_data:
            self.write(data)

    def _count_lost_write(self) -> None:
        if self._lost_writes >= LOST_WRITES_BEFORE_WARNING:
            logger.warning("SSL connection is closed")
        self._lost_writes += 1

    def can_write_eof(self) -> bool:
        """Return False: protocols take the end of a TLS stream for the end of both directions."""
        return False

    def write_eof(self) -> None:
        """Raise NotImplementedError, as asyncio does."""
        raise NotImplementedError

    # Closing

    def is_closing(self) -> bool:
        """Return whether the transport is closing or closed."""
        return self._close_requested or self._engine.state > OPEN

    @property
    def _closed(self) -> bool:
        """`is_closing`, under the name that libraries look up in asyncio's TLS transport."""
        return self.is_closing()

    def close(self) -> None:
        """Send what was written, end the TLS session, then close; nothing is received any more. Idempotent.

        Thread: any, as for finalizers. If the loop runs in another thread, the loop's thread closes in its next tick.
        """
        if not self._loop._is_elsewhere():
            self._begin_closing()
        elif not self.is_closing():
            self._close_requested = True
            self._loop.call_soon_threadsafe(self.close, context=self._context)

    def abort(self) -> None:
        """Close at once; bytes that the kernel has no room for are dropped. Thread: as for `close`."""
        if self._loop._is_elsewhere():
            self._close_requested = True
            self._loop.call_soon_threadsafe(self.abort, context=self._context)
            return
        if self._engine.state == OPEN:
            self._flush()  # asyncio's `write` would have sent it by now
        self._force_close(None)
