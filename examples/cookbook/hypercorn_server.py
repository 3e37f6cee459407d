"""hypercorn, started by the program: one process on loopcore, which ends in order on SIGTERM and Ctrl-C.

Start it with `python hypercorn_server.py 127.0.0.1:8000`.
"""

import asyncio
import signal
import sys

from fastapi_app import app
from hypercorn.asyncio import serve
from hypercorn.config import Config

import loopcore


async def main(address: str) -> None:
    """Serve until a signal arrives, then give open requests ten seconds."""
    config = Config()
    config.bind = [address]
    config.graceful_timeout = 10
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(app, config, shutdown_trigger=stop.wait)


if __name__ == "__main__":
    loopcore.run(main(sys.argv[1]))
