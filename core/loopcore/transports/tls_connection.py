"""TlsConnection: the protocol that a TLS transport is to its carrier, the plain transport below it.

Bytes that the carrier receives go into the engine, and plaintext comes out for the protocol above. The program's
`pause_reading` pauses the carrier, at once or when as many bytes wait as the program allows; they wait as ciphertext.

Every connection ends with the carrier's `connection_lost`: it calls the `connection_lost` of the protocol above,
exactly once, and only if the protocol knows of the connection. Nothing stays alive except what `get_extra_info` needs.

Thread: the loop's own. Errors are asyncio's, and so are their texts.
"""

from contextvars import Context
from typing import TYPE_CHECKING, Final

from loopcore.log import logger
from loopcore.transports.clients import detach
from loopcore.transports.flow import fire_transport_hook
from loopcore.transports.stream import StreamTransport
from loopcore.transports.tls_engine import DONE, HANDSHAKE, OPEN, SHUTDOWN
from loopcore.transports.tls_sending import HANDSHAKE_FAILED, TlsSending

try:
    import ssl
except ImportError:  # a Python built without OpenSSL
    ssl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import asyncio

    from _typeshed import ReadableBuffer

UNREAD_ANSWERS: Final = 64 * 1024
"""Bytes of TLS's own answers, such as to KeyUpdate (RFC 8446, 4.6.3), that may wait for a peer that does not read."""


class TlsConnection(TlsSending):
    """The receiving half, from the carrier's calls to the protocol's."""

    __slots__ = ()

    # The carrier's calls

    def connection_made(self, carrier: "asyncio.Transport") -> None:
        """Begin the handshake over `carrier`."""
        self._carrier = carrier
        self._plain = carrier if isinstance(carrier, StreamTransport) else None
        context = getattr(carrier, "_context", None)
        if isinstance(context, Context):
            self._context = context
        if self._engine.state == DONE:  # closed before it began
            carrier.abort()
            return
        if carrier.is_closing():  # it may have called the protocol already, and will not answer
            self._fail(ConnectionAbortedError("the connection was closed before the SSL handshake"), HANDSHAKE_FAILED)
            return
        if self._loop.get_debug():
            logger.debug("%r starts SSL handshake", self)
        self._timer = self._loop.call_later(self._handshake_timeout, self._handshake_timed_out, context=self._context)
        self._engine.start()
        self._shake_hands()
        if self._carrier_ended and self._engine.state < OPEN:
            self.eof_received()
        elif self._carrier_ended:
            self._read_on()

    def data_received(self, data: "ReadableBuffer") -> None:
        """Take in ciphertext; deliver its plaintext, unless the program has paused reading."""
        engine = self._engine
        state = engine.state
        if state == DONE:
            return
        engine.receive(data)
        if state == OPEN:
            if not self._paused:
                self._deliver()
            else:
                self._limit_received()
            if self._flush_scheduled:
                self._answer()
        elif state == SHUTDOWN:
            self._await_close_notify()
        elif state == HANDSHAKE:
            self._shake_hands()

    def eof_received(self) -> bool:
        """Record that the carrier receives nothing more; as in asyncio, a missing close_notify is not an error."""
        if self._loop.get_debug():
            logger.debug("%r received EOF", self)
        self._carrier_ended = True
        state = self._engine.state
        if state < OPEN:
            self._fail(ConnectionResetError("the peer closed the connection in the SSL handshake"), HANDSHAKE_FAILED)
        elif state == OPEN:
            if not self._paused:
                self._end_of_stream()
        elif state == SHUTDOWN:
            self._finish()
        return True  # this side closes the carrier, when all is sent

    def pause_writing(self) -> None:
        """The carrier has enough: encrypt nothing until it resumes."""
        self._carrier_full = True

    def resume_writing(self) -> None:
        """The carrier takes more."""
        self._carrier_full = False
        self._flush()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Report the end to the protocol, and drop references that could keep this transport or others alive."""
        if self._lost_with is not None:
            exc, self._lost_with = self._lost_with, None
        self._lost = True
        self._cancel_timer()
        self._engine.end()
        self._engine.forget()
        self._plain = None
        if self._waiter is not None:
            reason = exc or ConnectionAbortedError("the connection was closed during the SSL handshake")
            self._wake_waiter(reason)
        protocol, self._protocol = self._protocol, None
        self._on_data = self._on_get_buffer = self._on_buffer_updated = None
        server, self._server = self._server, None
        try:
            if self._engine.agreed and self._loop._watching_transports:
                fire_transport_hook(self, "closed", exc)
        finally:  # also if a hook exits
            try:
                if self._connected:
                    protocol.connection_lost(exc)
            finally:
                if server is not None:
                    detach(server, self)

    # The handshake

    def _shake_hands(self) -> None:
        try:
            agreed = self._engine.shake_hands()
        except Exception as exc:
            verifying = isinstance(exc, ssl.CertificateError)
            self._fail(exc, HANDSHAKE_FAILED + " on verifying the certificate" if verifying else HANDSHAKE_FAILED)
            return
        if not agreed:
            self._flush()
            return
        self._agreed()
        if self._loop._watching_transports:
            fire_transport_hook(self, "opened")
        # As in asyncio: bytes that came with the handshake are delivered first. If sending fails, the carrier's
        # `connection_lost` is scheduled, and callbacks that the protocol schedules for its data must run before that.
        if self._engine.state == OPEN and not self._paused:
            self._deliver()
        self._flush()

    def _agreed(self) -> None:
        """Complete the handshake. Bytes that the protocol writes at once are sent with the handshake's last message."""
        self._cancel_timer()
        if self._loop.get_debug():
            logger.debug("%r has completed the SSL handshake", self)
        if not self._connected:
            self._connected = True
            try:
                self._protocol.connection_made(self)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as exc:
                self._protocol_failed(exc, "connection_made")
                return
        self._wake_waiter(None)

    def _handshake_timed_out(self) -> None:
        self._timer = None
        if self._engine.state == HANDSHAKE:
            message = f"SSL handshake is taking longer than {self._handshake_timeout} seconds: aborting the connection"
            self._fail(ConnectionAbortedError(message), "Fatal error on transport")

    # Reading

    def _deliver(self) -> None:
        """Deliver plaintext as long as there is any and the protocol takes it; then find out why there is no more."""
        engine = self._engine
        while engine.state == OPEN and not self._paused and engine.readable():
            if self._buffered:
                if not self._fill_buffer():
                    break
                continue
            data = engine.read()
            if not data:
                break
            try:
                self._on_data(data)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as exc:
                self._protocol_failed(exc, "data_received")
                return
        if engine.state == OPEN:
            if engine.failure is not None:
                self._fail(engine.failure, "Fatal error on SSL protocol")
                return
            if engine.peer_closed and not self._paused:
                self._end_of_stream()
                return
        if not self._flush_scheduled and engine.outgoing_size():  # a scheduled flush also sends TLS's own messages
            self._flush()
        if self._carrier_full and engine.outgoing_size() > UNREAD_ANSWERS:
            self._fail(
                ConnectionAbortedError("the peer reads none of the answers it asks TLS for"), "Fatal error on transport"
            )

    def _answer(self) -> None:
        """Send what was written in answer to the bytes just received, if no other writes wait (docs/adr/0011)."""
        loop = self._loop
        if not loop._take_flush(self):
            return
        self._flush_scheduled = False
        try:
            self._flush()
        except BaseException:
            self._flush_scheduled = True
            loop._flush_soon(self)
            raise

    def _fill_buffer(self) -> bool:
        """Deliver what fits into one buffer of the protocol; return whether to continue."""
        engine = self._engine
        doing = "get_buffer"
        try:
            buffer = self._on_get_buffer(engine.received_size())
            if not len(buffer):
                raise RuntimeError("get_buffer() returned an empty buffer")
            if engine.state != OPEN or self._paused:
                return False
            doing = "buffer_updated"
            with memoryview(buffer) as whole, whole.cast("B") as view:
                count = engine.read_into(view)
            if count:
                self._on_buffer_updated(count)
        except (SystemExit, KeyboardInterrupt):
            self._loop.call_soon(self._read_on, context=self._context)  # delivers the rest, if the loop runs again
            raise
        except BaseException as exc:
            self._protocol_failed(exc, doing)
            return False
        return count != 0

    def _limit_received(self) -> None:
        """Reading is paused: pause the carrier, too, if enough bytes wait."""
        if self._carrier is not None and self._engine.received_size() >= self._read_high_water:
            self._carrier.pause_reading()

    def _read_on(self) -> None:
        """Reading was resumed: deliver the bytes received in the meantime, and the end if it was received."""
        if self._engine.state != OPEN or self._paused:
            return
        if self._carrier is not None and self._carrier.is_closing():
            return  # sending has failed in the meantime: the protocol's next call must be `connection_lost`
        self._deliver()
        if self._carrier_ended and self._engine.state == OPEN and not self._paused:
            self._end_of_stream()

    def _end_of_stream(self) -> None:
        """Report the peer's end to the protocol, then close; TLS connections are not left half open."""
        self._call_eof_received()
        self._begin_closing()

    def _call_eof_received(self) -> None:
        if self._eof_delivered or not self._connected:
            return
        self._eof_delivered = True
        try:
            keep_open = self._protocol.eof_received()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._flush()
            self._fail(exc, "Error calling eof_received()")
            return
        if keep_open:
            logger.warning("returning true from eof_received() has no effect when using ssl")

    def _await_close_notify(self) -> None:
        """Handle bytes received after our close_notify: close on the peer's, and on data, which will not be read."""
        engine = self._engine
        dropped = engine.drop()
        if engine.failure is not None:
            self._fail(engine.failure, "Fatal error on transport")
        elif engine.peer_closed or dropped or engine.outgoing_size() > UNREAD_ANSWERS:
            self._finish()
