"""aiohttp: a waiter for a connection that is cancelled as it is woken wakes no other (compare aiohttp #9670).

aiohttp 3.10.10 has the race, and so has 3.14.5, the latest.
"""

import asyncio

import aiohttp

from loopcore.sim import may_cancel


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.readline():
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.01)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"

    async def get() -> None:
        async with session.get(url) as response:
            await response.read()

    async with server, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session, asyncio.timeout(1):
        await asyncio.gather(*(may_cancel(get(), name=name) for name in ("first", "second", "third")))
