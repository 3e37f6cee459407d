"""A server that echoes, and a client of it, for simulated programs."""

import asyncio
from collections.abc import Callable
from typing import Any

from loopcore import sim
from loopcore.sim.search import Fifo

SERVER = ("10.0.0.2", 7000)


def simulated(main: Callable[[], Any], seed: int = 0) -> Any:
    """Run `main` in asyncio's own order."""
    return sim.run(main, seed=seed, strategy=Fifo())


async def echo() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "0.0.0.0", SERVER[1])
    await server.serve_forever()


async def connected() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            return await asyncio.open_connection(*SERVER)
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
