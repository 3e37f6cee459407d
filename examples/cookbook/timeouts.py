"""Timeouts: of a request, of each call that it makes, and of work in a thread.

Start it with `REQUEST_TIMEOUT=10 uvicorn --loop loopcore:new_event_loop timeouts:app`.
"""

import asyncio
import os
import threading

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUEST = float(os.environ.get("REQUEST_TIMEOUT", "30"))
"""Seconds that a request may take altogether."""

CALL = 0.2
"""Seconds that one call to another service may take."""


class RequestTimeout:
    """Middleware that cancels a request which takes longer than REQUEST, and answers 504 if nothing was sent yet."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began = False

        async def watch(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            async with asyncio.timeout(REQUEST) as limit:
                await self.app(scope, receive, watch)
        except TimeoutError:
            if began or not limit.expired():
                raise  # the response is cut off, or a timeout of the application itself
            await PlainTextResponse("this took too long", status_code=504)(scope, receive, send)


async def slow(request: Request) -> JSONResponse:
    """Never ends: the middleware cancels it."""
    await asyncio.Event().wait()
    return JSONResponse({})


async def call(request: Request) -> JSONResponse:
    """One call has a shorter timeout, and the request goes on without its result."""
    try:
        async with asyncio.timeout(CALL):
            price = await ask_a_service_that_hangs()
    except TimeoutError:
        return JSONResponse({"price": None})
    return JSONResponse({"price": price})


async def thread(request: Request) -> JSONResponse:
    """A timeout ends the wait for a thread, not the thread. Tell it to end, or let it time out by its own call."""
    end = threading.Event()
    try:
        async with asyncio.timeout(CALL):
            await asyncio.to_thread(end.wait)
    except TimeoutError:
        end.set()
        return JSONResponse({"thread": "was told to end"})
    return JSONResponse({"thread": "has ended"})


async def ask_a_service_that_hangs() -> int:
    """Stands for a client library's call."""
    return await asyncio.get_running_loop().create_future()


app = RequestTimeout(Starlette(routes=[Route("/slow", slow), Route("/call", call), Route("/thread", thread)]))
