"""FastAPI: a background task that lives as long as the application, and work in threads.

Start it with `uvicorn --loop loopcore:new_event_loop fastapi_app:app`.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request


async def count_visits(visits: asyncio.Queue[str], counts: dict[str, int]) -> None:
    """Count the paths that the requests put into the queue, until cancelled."""
    while True:
        path = await visits.get()
        counts[path] = counts.get(path, 0) + 1


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the task with the application. The group waits for its end, and reports its error, at shutdown."""
    app.state.visits, app.state.counts = asyncio.Queue(), {}
    async with asyncio.TaskGroup() as group:
        counter = group.create_task(count_visits(app.state.visits, app.state.counts), name="count-visits")
        yield
        counter.cancel()


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def index(request: Request) -> dict[str, str]:
    """Which loop answers."""
    request.app.state.visits.put_nowait("/")
    return {"loop": type(asyncio.get_running_loop()).__module__}


@app.get("/report")
def report(request: Request) -> dict[str, str | int]:
    """A plain function: FastAPI calls it in a thread, so it may block without holding up the loop."""
    return {"visits": request.app.state.counts.get("/", 0), "thread": threading.current_thread().name}
