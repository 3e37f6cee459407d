"""StreamReaderProtocol: the protocol between a stream's transport and its reader; it knows when writing is paused.

isinstance(protocol, asyncio.StreamReaderProtocol) holds through `__class__` (docs/adr/0007).

Thread: the loop's own.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from loopcore.streams.control import WriteControl
from loopcore.streams.intake import Intake
from loopcore.streams.reader import StreamReader
from loopcore.streams.writer import StreamWriter

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.streams.protocol import give_instance_dicts


class StreamReaderProtocol(WriteControl):
    """The protocol between a transport and `stream_reader`.

    With `client_connected_cb` it is a server's protocol: the callback is called with the reader and a writer for the
    connection. If it returns a coroutine, a task runs it; its exception goes to the loop's exception handler.
    """

    __slots__ = (
        "_reader",
        "_intake",
        "_transport",
        "_task",
        "_client_connected_cb",
        "_over_ssl",
        "_lost_by",
        "_close_waiter",
        "__weakref__",
        "__dict__",
    )

    def __init__(
        self,
        stream_reader: "StreamReader | asyncio.StreamReader | None",
        client_connected_cb: Callable[..., object] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        WriteControl.__init__(self, loop)
        self._reader: Any = stream_reader
        # The same object if it can be fed directly: a subclass, or a reader of asyncio's, is fed through its methods.
        self._intake: Intake | None = stream_reader if type(stream_reader) is StreamReader else None
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[Any] | None = None
        self._client_connected_cb: Callable[..., object] | None = client_connected_cb
        self._over_ssl: bool = False
        self._lost_by: BaseException | None = None
        # Created on first use: most programs wait for it at the end, few before.
        self._close_waiter: Any = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.StreamReaderProtocol

    def __repr__(self) -> str:
        return f"<{type(self).__name__} reader={self._reader!r}>"

    @property
    def _stream_reader(self) -> Any:
        return self._reader  # start_tls looks here for bytes that were received already

    @property
    def _closed(self) -> Any:
        return self._get_close_waiter(None)

    # Called by a transport

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Pass the transport to the reader, and the connection to the server's callback."""
        self._note_transport(transport)
        reader = self._reader
        if reader is not None:
            reader.set_transport(transport)
        if self._client_connected_cb is None:
            return
        try:
            outcome = self._client_connected_cb(reader, StreamWriter(transport, self, reader, self._loop))
        except Exception as exc:
            report_handler(self._loop, transport, exc)
            return
        if asyncio.iscoroutine(outcome):
            self._task = self._loop.create_task(outcome)
            self._task.add_done_callback(partial(end_handler, self._loop, transport))

    def data_received(self, data: bytes) -> None:
        """Feed the reader."""
        intake = self._intake
        if intake is not None:
            intake._feed(data)
        elif self._reader is not None:
            self._reader.feed_data(data)

    def eof_received(self) -> bool:
        """Pass the end to the reader. The connection stays open for writing, except over TLS, where it cannot."""
        if self._reader is not None:
            self._reader.feed_eof()
        return not self._over_ssl

    def connection_lost(self, exc: BaseException | None) -> None:
        """End all waiting calls: those that read, those in `drain`, and those in `wait_closed`."""
        reader = self._reader
        if reader is not None:
            if exc is None:
                reader.feed_eof()
            else:
                reader.set_exception(exc)
        self._lost_by = exc
        self._lose_connection(exc)
        if self._close_waiter is not None:
            self._settle_close_waiter()
        self._reader = None
        self._intake = None
        self._task = None
        self._transport = None

    # Called by a StreamWriter

    def _replace_transport(self, transport: asyncio.Transport) -> None:
        self._note_transport(transport)
        if self._reader is not None:
            self._reader._transport = transport  # which it pauses

    def _note_transport(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._over_ssl = transport.get_extra_info("sslcontext") is not None

    def _get_close_waiter(self, writer: object) -> Any:
        if self._close_waiter is None:
            self._close_waiter = self._loop.create_future()
            if self._connection_lost:
                self._settle_close_waiter()
        return self._close_waiter

    def _settle_close_waiter(self) -> None:
        waiter = self._close_waiter
        if waiter.done():
            return
        if self._lost_by is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(self._lost_by)
            waiter.exception()  # no warning if it is never retrieved


def end_handler(loop: asyncio.AbstractEventLoop, transport: asyncio.BaseTransport, task: "asyncio.Task[Any]") -> None:
    """Close the connection that `task` handled if the task was cancelled or failed; report a failure."""
    if task.cancelled():
        transport.close()
        return
    exc = task.exception()
    if exc is not None:
        report_handler(loop, transport, exc)


def report_handler(loop: asyncio.AbstractEventLoop, transport: asyncio.BaseTransport, exc: BaseException) -> None:
    """Report what a server's callback, or its task, has raised, and close the connection."""
    context = {"message": "Unhandled exception in client_connected_cb", "exception": exc, "transport": transport}
    loop.call_exception_handler(context)
    transport.close()


if cython.compiled:
    give_instance_dicts()
