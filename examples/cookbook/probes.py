"""Kubernetes probes: ready while the service's database can be reached; the watchdog answers whether it is alive.

Start it with `DATABASE=db.example.org:5432 uvicorn --loop loopcore:new_event_loop probes:app`.

kubernetes.yaml has the probes, and the times that must fit together.
"""

import asyncio
import os

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def readyz(request: Request) -> PlainTextResponse:
    """503 takes the pod out of the service until its database answers again."""
    host, _, port = os.environ["DATABASE"].rpartition(":")
    try:
        async with asyncio.timeout(1):
            _, writer = await asyncio.open_connection(host, int(port))
    except (OSError, TimeoutError) as error:
        return PlainTextResponse(f"no database: {error}", status_code=503)
    writer.close()
    return PlainTextResponse("ready")


async def index(request: Request) -> PlainTextResponse:
    """The service itself."""
    return PlainTextResponse(type(asyncio.get_running_loop()).__module__)


app = Starlette(routes=[Route("/", index), Route("/readyz", readyz)])
