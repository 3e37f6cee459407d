"""Opening streams: a client's connection, and a server with a callback for each connection.

For any running asyncio loop. The arguments are those of `loop.create_connection`, `create_server` and their Unix
counterparts, without the protocol factory. Raises the same errors as these.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from loopcore.streams.intake import DEFAULT_LIMIT

if TYPE_CHECKING:
    from loopcore.streams.declared import StreamReader, StreamReaderProtocol, StreamWriter
else:
    from loopcore.streams.protocol import StreamReaderProtocol
    from loopcore.streams.reader import StreamReader
    from loopcore.streams.writer import StreamWriter

ClientConnected: TypeAlias = Callable[[StreamReader, StreamWriter], "Awaitable[None] | None"]
"""The callback of a server for each connection: a function, or a coroutine function, which a task runs."""


async def open_connection(
    host: Any = None, port: Any = None, *, limit: int = DEFAULT_LIMIT, **kwds: Any
) -> tuple[StreamReader, StreamWriter]:
    """Connect, and return the two ends. `kwds` are `loop.create_connection`'s; `limit` is the reader's, in bytes."""
    loop = asyncio.get_running_loop()
    protocol = _protocol(None, limit, loop)
    transport, _ = await loop.create_connection(lambda: protocol, host, port, **kwds)
    return _ends(transport, protocol, loop)


async def start_server(
    client_connected_cb: ClientConnected, host: Any = None, port: Any = None, *, limit: int = DEFAULT_LIMIT, **kwds: Any
) -> asyncio.Server:
    """Listen, and call `client_connected_cb(reader, writer)` for each connection. `kwds` are `loop.create_server`'s.

    An exception from `client_connected_cb` goes to the loop's exception handler, and its connection is closed.
    """
    loop = asyncio.get_running_loop()
    factory = partial(_protocol, client_connected_cb, limit, loop)
    server: asyncio.Server = await loop.create_server(factory, host, port, **kwds)
    return server


async def open_unix_connection(
    path: Any = None, *, limit: int = DEFAULT_LIMIT, **kwds: Any
) -> tuple[StreamReader, StreamWriter]:
    """Like `open_connection`, but to the Unix socket at `path`. `kwds` are `loop.create_unix_connection`'s.

    Raises NotImplementedError if Python has no Unix sockets (Windows).
    """
    loop = asyncio.get_running_loop()
    protocol = _protocol(None, limit, loop)
    transport, _ = await loop.create_unix_connection(lambda: protocol, path, **kwds)
    return _ends(transport, protocol, loop)


async def start_unix_server(
    client_connected_cb: ClientConnected, path: Any = None, *, limit: int = DEFAULT_LIMIT, **kwds: Any
) -> asyncio.Server:
    """Like `start_server`, but on a Unix socket at `path`. `kwds` are `loop.create_unix_server`'s.

    Raises NotImplementedError if Python has no Unix sockets (Windows).
    """
    loop = asyncio.get_running_loop()
    factory = partial(_protocol, client_connected_cb, limit, loop)
    server: asyncio.Server = await loop.create_unix_server(factory, path, **kwds)
    return server


def _protocol(
    client_connected_cb: ClientConnected | None, limit: int, loop: asyncio.AbstractEventLoop
) -> StreamReaderProtocol:
    return StreamReaderProtocol(StreamReader(limit, loop), client_connected_cb, loop)


def _ends(
    transport: asyncio.WriteTransport, protocol: Any, loop: asyncio.AbstractEventLoop
) -> tuple[StreamReader, StreamWriter]:
    reader: StreamReader = protocol._stream_reader
    return reader, StreamWriter(transport, protocol, reader, loop)
