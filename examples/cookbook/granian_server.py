"""Granian: its workers get their loops from loopcore.

Start it with `python granian_server.py 8000`.
"""

import asyncio
import sys

from granian import Granian, loops
from granian.constants import Interfaces

import loopcore


@loops.register("auto")
def new_loop() -> asyncio.AbstractEventLoop:
    """Granian's default choice of a loop. Each worker imports this module, so it applies there too."""
    loop = loopcore.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


if __name__ == "__main__":
    Granian("fastapi_app:app", port=int(sys.argv[1]), interface=Interfaces.ASGI, workers=2).serve()
