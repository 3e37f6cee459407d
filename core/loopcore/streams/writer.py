"""StreamWriter: the sending end of a stream, with asyncio's interface.

docs/reference/streams.md lists the differences from asyncio. isinstance(writer, asyncio.StreamWriter) holds through
`__class__` (docs/adr/0007).

Thread: the loop's own.
"""

import asyncio
import warnings
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from loopcore.streams.calls import StreamCall
from loopcore.streams.control import WriteControl
from loopcore.streams.coroutines import drain_over, upgrade, wait_closed
from loopcore.streams.intake import Intake
from loopcore.transports.lifecycle import Connection

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.streams.writer import give_instance_dicts

if TYPE_CHECKING:
    from ssl import SSLContext

    from loopcore.streams.reader import StreamReader

_OPEN = 0  # the state of an open transport


# The steps of `Drain`.
_BEGIN = 0
_TICK_PASSED = 1
_RESUMED = 2


class StreamWriter:
    """Writes to `transport`, whose protocol is `protocol`. `reader` reads from the same connection, or is None.

    If the last reference is dropped while the transport is open, the transport is closed with a ResourceWarning.
    """

    __slots__ = ("_transport", "_protocol", "_reader", "_loop", "__weakref__", "__dict__")

    def __init__(
        self,
        transport: asyncio.Transport,
        protocol: Any,
        reader: "asyncio.StreamReader | StreamReader | None",
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        assert reader is None or isinstance(reader, asyncio.StreamReader)
        self._transport: asyncio.Transport = transport
        self._protocol: Any = protocol
        self._reader: "asyncio.StreamReader | StreamReader | None" = reader
        self._loop: Any = loop

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.StreamWriter

    def __repr__(self) -> str:
        reader = "" if self._reader is None else f" reader={self._reader!r}"
        return f"<{type(self).__name__} transport={self._transport!r}{reader}>"

    @property
    def transport(self) -> asyncio.Transport:
        """The transport that is written to."""
        return self._transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send `data`; await `drain` afterwards, which waits if the peer is slow. Errors are the transport's."""
        self._transport.write(data)

    def writelines(self, data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send the buffers one after the other. Otherwise like `write`."""
        self._transport.writelines(data)

    def write_eof(self) -> None:
        """Signal the end of the stream to the peer. Raises NotImplementedError over TLS."""
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        """Return whether `write_eof` is possible."""
        return self._transport.can_write_eof()

    def close(self) -> None:
        """Send the data written so far, then close the connection; await `wait_closed` afterwards."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closing or closed."""
        return self._transport.is_closing()

    def wait_closed(self) -> Coroutine[Any, Any, None]:
        """Wait until the connection is closed. Raises the error that it was lost by, if any."""
        return wait_closed(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the transport's information with this name, or `default`."""
        return self._transport.get_extra_info(name, default)

    def drain(self) -> Coroutine[Any, Any, None]:
        """Wait until the transport accepts more data; return at once unless the peer is slow.

        Raises the error that the connection was lost by, or ConnectionResetError.
        """
        control = self._protocol
        if not isinstance(control, WriteControl):
            return drain_over(self)
        return Drain(self, control)

    def start_tls(
        self,
        sslcontext: "SSLContext",
        *,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Upgrade to TLS, as the server if `start_server` created this. Raises the errors of `loop.start_tls`."""
        options = {
            "server_hostname": server_hostname,
            "ssl_handshake_timeout": ssl_handshake_timeout,
            "ssl_shutdown_timeout": ssl_shutdown_timeout,
        }
        return upgrade(self, sslcontext, options)

    def _failure(self) -> BaseException | None:
        """Return the reader's exception, or None."""
        reader = self._reader
        if isinstance(reader, Intake):
            intake = reader
            return intake._exception
        return None if reader is None else reader.exception()

    def _closing(self) -> bool:
        transport = self._transport
        if isinstance(transport, Connection):
            connection = transport
            return connection._state != _OPEN
        return transport.is_closing()

    def __del__(self) -> None:
        transport = getattr(self, "_transport", None)  # absent if the constructor failed
        if transport is None or transport.is_closing():
            return
        if self._loop.is_closed():
            warnings.warn("loop is closed", ResourceWarning, stacklevel=1, source=self)
        else:
            self.close()
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=1, source=self)


class Drain(StreamCall):
    """A call of `drain`. `_control` is the protocol, which knows whether the transport accepts more data."""

    __slots__ = ("_step", "_writer", "_control")

    def __init__(self, writer: StreamWriter, control: WriteControl) -> None:
        StreamCall.__init__(self)
        self._step: int = _BEGIN
        self._writer: StreamWriter = writer
        self._control: WriteControl = control

    def _describe(self) -> str:
        return "StreamWriter.drain"

    def _advance(self, first: bool) -> Any:
        if self._step == _RESUMED:
            return None
        if self._step == _BEGIN:
            exc = self._writer._failure()
            if exc is not None:
                raise exc
            if self._writer._closing():
                # `connection_lost` comes in the next tick. Without this wait, a program that writes and drains in a
                # loop would never let it run, and never learn that the connection is lost.
                self._step = _TICK_PASSED
                return self._wait_for(None)
        future = self._control._begin_waiting()
        if future is not None:
            self._step = _RESUMED
            self._wait_for(future)
        return None

    def _abandon(self) -> None:
        self._control._leave_waiting(self._future)

    def _retire(self) -> None:
        self._writer = self._control = None  # type: ignore[assignment]


if cython.compiled:
    give_instance_dicts()
