"""The ASGI applications that the programs of this folder serve. They use no framework."""

import asyncio
import hashlib
from typing import Any

from loopcore.serving import draining

HELLO = b"Hello, world!\n"
EVENT = b"data: tick\n\n"
_HEADERS = [(b"content-type", b"text/plain"), (b"content-length", str(len(HELLO)).encode())]
_EVENT_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _hello(send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": HELLO})


async def small(scope: Any, receive: Any, send: Any) -> None:
    """Answer at once; below /cpu after about 0.2 ms of computing, which holds the GIL where there is one."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
        return
    if scope["path"] == "/cpu":
        digest = HELLO
        for _ in range(200):
            digest = hashlib.blake2b(digest).digest()
    await _hello(send)


async def _events(send: Any, interval: float) -> None:
    while True:
        await send({"type": "http.response.body", "body": EVENT, "more_body": True})
        await asyncio.sleep(interval)


async def deaf(scope: Any, receive: Any, send: Any) -> None:
    """Event streams at /events, a WebSocket that echoes elsewhere; neither ever ends."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            await send({"type": "websocket.send", "text": message.get("text") or ""})
    elif scope["path"] == "/events":
        await send({"type": "http.response.start", "status": 200, "headers": _EVENT_HEADERS})
        await _events(send, 0.5)
    else:
        await _hello(send)


async def polite(scope: Any, receive: Any, send: Any) -> None:
    """As `deaf`, but both say goodbye and end when the server drains."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        echo = asyncio.ensure_future(_echo(receive, send))
        await _first(echo, draining())
        if not echo.done() or echo.cancelled():
            await send({"type": "websocket.send", "text": "goodbye"})
            await send({"type": "websocket.close", "code": 1001, "reason": "going away"})
    elif scope["type"] == "http" and scope["path"] == "/events":
        await send({"type": "http.response.start", "status": 200, "headers": _EVENT_HEADERS})
        await _first(asyncio.ensure_future(_events(send, 0.5)), draining())
        await send({"type": "http.response.body", "body": b"event: goodbye\ndata:\n\n"})
    else:
        await deaf(scope, receive, send)


async def _echo(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        await send({"type": "websocket.send", "text": message.get("text") or ""})


async def _first(work: "asyncio.Future[None]", signal: Any) -> None:
    """Wait until `work` or `signal` is done, and cancel the other."""
    waiting = asyncio.ensure_future(signal)
    try:
        await asyncio.wait((work, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        work.cancel()
        await asyncio.gather(work, waiting, return_exceptions=True)
