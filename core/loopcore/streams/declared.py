"""The stream classes as type checkers see them: subclasses of asyncio's, so a handler may be annotated with either.

At run time `isinstance` says the same through `__class__` (docs/adr/0007), which no type checker follows; a compiled
class cannot have an interpreted base. Only what asyncio of Python 3.11 has in another form is declared here;
tests/typed/test_streams.py compares it with the classes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from ssl import SSLContext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class StreamReader(asyncio.StreamReader):
    """See `loopcore.streams.reader`."""

    async def readuntil(self, separator: "ReadableBuffer | tuple[ReadableBuffer, ...]" = b"\n") -> bytes:
        raise NotImplementedError


class StreamWriter(asyncio.StreamWriter):
    """See `loopcore.streams.writer`."""

    async def start_tls(
        self,
        sslcontext: SSLContext,
        *,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> None:
        raise NotImplementedError


class StreamReaderProtocol(asyncio.StreamReaderProtocol):
    """See `loopcore.streams.protocol`."""

    def __init__(
        self,
        stream_reader: asyncio.StreamReader,
        client_connected_cb: Callable[[StreamReader, StreamWriter], Awaitable[None] | None] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        raise NotImplementedError
