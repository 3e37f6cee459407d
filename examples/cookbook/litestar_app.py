"""Litestar: a handler, a dependency, and a resource with the life of the application.

Start it with `uvicorn --loop loopcore:new_event_loop litestar_app:app`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar, get
from litestar.datastructures import State
from litestar.di import Provide


@asynccontextmanager
async def limiter(app: Litestar) -> AsyncIterator[None]:
    """At most ten requests use the scarce resource at a time."""
    app.state.places = asyncio.Semaphore(10)
    yield


async def place(state: State) -> AsyncIterator[int]:
    """A dependency of handlers: it waits for a place, and gives it back after the response."""
    async with state.places:
        yield 10


@get("/", dependencies={"limit": Provide(place)})
async def index(limit: int) -> dict[str, str | int]:
    """Which loop answers."""
    return {"loop": type(asyncio.get_running_loop()).__module__, "limit": limit}


app = Litestar([index], lifespan=[limiter])
