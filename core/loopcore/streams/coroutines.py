"""The coroutine methods of a stream's two ends that are not called for every message: plain `async def`.

Thread: the loop's own.
"""

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ssl import SSLContext

    from loopcore.streams.reader import StreamReader
    from loopcore.streams.writer import StreamWriter


async def read_until_incomplete(reader: "StreamReader", count: int) -> bytes:
    """Read exactly `count` bytes, more than fit in any memory: read to the end, and raise IncompleteReadError."""
    raise asyncio.IncompleteReadError(await reader.read(-1), count)


async def wait_closed(writer: "StreamWriter") -> None:
    """Wait until the connection of `writer` is lost; raise the error that it was lost by, if any."""
    await writer._protocol._get_close_waiter(writer)


async def drain_over(writer: "StreamWriter") -> None:
    """Drain a writer over a protocol other than ours, with asyncio's `_drain_helper`."""
    exc = None if writer._reader is None else writer._reader.exception()
    if exc is not None:
        raise exc
    if writer.is_closing():
        await asyncio.sleep(0)  # `connection_lost` comes in the next tick; see Drain
    await writer._protocol._drain_helper()


async def upgrade(writer: "StreamWriter", sslcontext: "SSLContext", options: dict[str, Any]) -> None:
    """Put TLS between `writer` and its transport; `options` are those of `loop.start_tls`."""
    protocol = writer._protocol
    await writer.drain()
    transport = await writer._loop.start_tls(
        writer._transport,
        protocol,
        sslcontext,
        server_side=protocol._client_connected_cb is not None,
        **options,
    )
    writer._transport = transport
    protocol._replace_transport(transport)
