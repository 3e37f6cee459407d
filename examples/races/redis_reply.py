"""redis-py: a cancelled command leaves its reply to the next caller (redis-py #2624, #2665).

redis 4.5.3 has the race, 8.1.0 does not.
"""

import asyncio

from redis.asyncio import Redis

from loopcore.sim import may_cancel


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer GET key with val-key, anything else with OK."""
    while words := await reader.readline():
        sizes_and_words = [await reader.readline() for _ in range(2 * int(words[1:]))]
        value = b"val-" + sizes_and_words[-1].strip()
        is_get = sizes_and_words[1] == b"GET\r\n"
        writer.write(b"$%d\r\n%b\r\n" % (len(value), value) if is_get else b"+OK\r\n")
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Redis(host="127.0.0.1", port=port, single_connection_client=True) as redis:
        await may_cancel(redis.get("foo"), name="GET foo")
        reply = await redis.get("bar")
        assert reply == b"val-bar", f"asked for bar, got {reply}"
