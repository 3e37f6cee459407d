"""aiomcache: a cancelled command leaves its reply to the next caller (aiomcache #489).

aiomcache 0.8.2, the latest, has the race.
"""

import asyncio

import aiomcache

from loopcore.sim import may_cancel


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        key = line.split()[1]
        writer.write(b"VALUE %b 0 %d\r\nval-%b\r\nEND\r\n" % (key, len(key) + 4, key))
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = aiomcache.Client("127.0.0.1", server.sockets[0].getsockname()[1], pool_size=1)
    await may_cancel(client.get(b"foo"), name="get foo")
    try:
        value = await client.get(b"bar")
        assert value == b"val-bar", f"asked for bar, got {value!r}"
    finally:
        await client.close()
        server.close()
