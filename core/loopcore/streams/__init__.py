"""Streams: awaitable reading and writing of a connection. asyncio's interface, at some 60 % of its cost.

    reader, writer = await loopcore.open_connection("127.0.0.1", 8888)
    writer.write(b"hello\\n")
    await writer.drain()
    print(await reader.readline())

Names, arguments, results and errors are those of asyncio in Python 3.13, on every Python and on every asyncio loop.
docs/reference/streams.md lists the differences.

Imports transports and what is below them.
"""

from typing import TYPE_CHECKING

from loopcore.streams.opening import open_connection, open_unix_connection, start_server, start_unix_server
from loopcore.tracebacks import show_sources

if TYPE_CHECKING:
    from loopcore.streams.declared import StreamReader, StreamReaderProtocol, StreamWriter
else:
    from loopcore.streams.protocol import StreamReaderProtocol
    from loopcore.streams.reader import StreamReader
    from loopcore.streams.writer import StreamWriter

__all__ = [
    "StreamReader",
    "StreamReaderProtocol",
    "StreamWriter",
    "open_connection",
    "open_unix_connection",
    "start_server",
    "start_unix_server",
]

show_sources(__name__, __path__)
