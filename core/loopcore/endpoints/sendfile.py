"""sendfile: sending a file over a transport, by the kernel if there is no layer between the transport and its socket.

By the kernel: reading is paused, data written before is sent first, `write` is refused until the file is sent,
and losing the connection ends the sending with ConnectionError. Otherwise (TLS, or a file that the kernel does not
accept) the file is read in the executor and written to the transport like any data, while a protocol of ours stands
in for the program's, so that backpressure delays the reading.

A transport states what it supports in `_sendfile_compatible`, as in asyncio. Thread: the loop's own.
"""

import asyncio
from asyncio import constants
from typing import TYPE_CHECKING, Any

from loopcore.endpoints.needs import EndpointHost
from loopcore.services.sendfile import SendFiles, check_file

if TYPE_CHECKING:
    from loopcore.transports.stream import StreamTransport

# asyncio's own constants: its transports, and those of libraries for asyncio, use them.
_Mode = constants._SendfileMode


class FileSender:
    """Files over transports."""

    __slots__ = ("_files", "_host")

    def __init__(self, host: EndpointHost, files: SendFiles) -> None:
        self._host = host
        self._files = files

    async def sendfile(
        self, transport: Any, file: Any, offset: int = 0, count: int | None = None, *, fallback: bool = True
    ) -> int:
        """Send `count` bytes of `file` from `offset` on, or everything to its end; return how many were sent.

        Raises RuntimeError for a transport that is closing or cannot send files, SendfileNotAvailableError if
        the kernel cannot do it and `fallback` is false, OSError for the connection. If the transport supports sending
        by the kernel: ValueError for a file in text mode, ValueError or TypeError for an invalid offset or count.
        """
        if transport.is_closing():
            raise RuntimeError("Transport is closing")
        mode = getattr(transport, "_sendfile_compatible", _Mode.UNSUPPORTED)
        if mode is _Mode.UNSUPPORTED:
            raise RuntimeError(f"sendfile is not supported for transport {transport!r}")
        if mode is _Mode.TRY_NATIVE:
            check_file(file, offset, count)
            try:
                return await self._by_kernel(transport, file, offset, count)
            except asyncio.SendfileNotAvailableError:
                if not fallback:
                    raise
        if not fallback:
            raise RuntimeError(f"fallback is disabled and native sendfile is not supported for transport {transport!r}")
        return await self._by_writing(transport, file, offset, count)

    async def _by_kernel(self, transport: "StreamTransport", file: Any, offset: int, count: int | None) -> int:
        to_resume = transport.is_reading()
        sent_before = transport._make_empty_waiter()
        try:
            transport.pause_reading()
            await sent_before
            if transport.is_closing():
                raise ConnectionError("Connection is closed")
            sock = transport._sock
            assert sock is not None, "the transport is open"
            return await self._files.by_kernel(
                sock, file, offset, count, transport._end_with_connection, transport._driver.count_sent
            )
        finally:
            transport._reset_empty_waiter()
            if to_resume:
                transport.resume_reading()

    async def _by_writing(self, transport: asyncio.Transport, file: Any, offset: int, count: int | None) -> int:
        fallback = _FallbackProtocol(transport, self._host)

        async def write(data: memoryview) -> None:
            await fallback.drain()
            transport.write(bytes(data))

        try:
            return await self._files.read_and(write, file, offset, count)
        finally:
            fallback.restore()


class _FallbackProtocol(asyncio.Protocol):
    """Stands in for a transport's protocol while a file is read and written: handles backpressure, receives nothing."""

    def __init__(self, transport: asyncio.Transport, host: EndpointHost) -> None:
        self._transport = transport
        self._host = host
        self._protocol = transport.get_protocol()
        self._to_resume_reading = transport.is_reading()
        self._was_paused = bool(getattr(transport, "_protocol_paused", False))
        self._lost = False
        transport.pause_reading()
        transport.set_protocol(self)
        self._writable: asyncio.Future[None] | None = host.create_future() if self._was_paused else None

    async def drain(self) -> None:
        """Wait until the transport accepts more data. Raises ConnectionError if it never will."""
        if self._transport.is_closing():
            raise ConnectionError("Connection closed by peer")
        if self._writable is not None:
            await self._writable

    def restore(self) -> None:
        """Return the transport to the program's protocol, in the state as if that protocol had been there all along."""
        paused = self._writable is not None
        if self._writable is not None:
            self._writable.cancel()
        if self._lost:
            return
        self._transport.set_protocol(self._protocol)
        if self._to_resume_reading:
            self._transport.resume_reading()
        if self._was_paused and not paused:
            self._protocol.resume_writing()
        elif paused and not self._was_paused:
            self._protocol.pause_writing()

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = self._host.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._writable is not None and not self._writable.done():
            # Always an error, even after a clean close: the write that is being waited for will not happen.
            self._writable.set_exception(ConnectionError("Connection is closed by peer") if exc is None else exc)
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        raise RuntimeError("Invalid state: reading should be paused")

    def eof_received(self) -> bool | None:
        raise RuntimeError("Invalid state: reading should be paused")
