"""httpcore: a cancelled request keeps its place in the pool, and the next waits for ever (httpcore #830, #961, #1093).

httpcore 1.0.9 has the race, httpcore2 does not.
"""

import asyncio

try:
    import httpcore
except ImportError:
    import httpcore2 as httpcore

from loopcore.sim import may_cancel


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.readline():
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, httpcore.AsyncConnectionPool(max_connections=1) as pool:
        await asyncio.gather(*(may_cancel(pool.request("GET", url), name=name) for name in ("first", "second")))
        await pool.request("GET", url)
