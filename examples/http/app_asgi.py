"""The same application as app_aiohttp.py, written to the ASGI interface, without a framework.

    uvicorn --app-dir examples/http app_asgi:app --loop loopcore:new_event_loop

It contains nothing specific to loopcore. WebSockets also need the package `websockets` or `wsproto`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def app(scope: Message, receive: Receive, send: Send) -> None:
    """The entry point that an ASGI server calls: once a request, a WebSocket, or its own life."""
    match scope["type"], scope.get("method"), scope.get("path"):
        case "lifespan", _, _:
            await lifespan(receive, send)
        case "http", "GET", "/":
            await index(send)
        case "http", "POST", "/echo":
            await echo(receive, send)
        case "http", "GET", "/stream":
            await stream(scope["query_string"], send)
        case "http", _, _:
            await respond(send, 404, "text/plain", b"not found")
        case "websocket", _, "/ws":
            await websocket(receive, send)
        case "websocket", _, _:
            await send({"type": "websocket.close", "code": 1000})


async def lifespan(receive: Receive, send: Send) -> None:
    """Start-up and shutdown: nothing to prepare, nothing to clear away."""
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})


async def index(send: Send) -> None:
    """Which loop answers."""
    loop = asyncio.get_running_loop()
    backend = getattr(getattr(loop, "backend", None), "name", None)
    body = json.dumps({"hello": "world", "loop": type(loop).__module__, "backend": backend})
    await respond(send, 200, "application/json", body.encode())


async def echo(receive: Receive, send: Send) -> None:
    """The body, as it came."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    await respond(send, 200, "application/octet-stream", body)


async def stream(query: bytes, send: Send) -> None:
    """`n` lines of JSON, each in a separate chunk."""
    n = parse_qs(query.decode("ascii", "replace")).get("n", ["10"])[0]
    if not (n.isascii() and n.isdecimal() and int(n) <= 10_000):
        await respond(send, 400, "text/plain", b"n must be a number up to 10000")
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/x-ndjson")]})
    for number in range(int(n)):
        line = json.dumps({"line": number}).encode() + b"\n"
        await send({"type": "http.response.body", "body": line, "more_body": True})
        # `send` waits only when buffers are full. Here others get their turn, and a client that left is noticed.
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b""})


async def websocket(receive: Receive, send: Send) -> None:
    """Text and binary messages go back as they came."""
    while (message := await receive())["type"] != "websocket.disconnect":
        if message["type"] == "websocket.connect":
            await send({"type": "websocket.accept"})
        elif message.get("text") is not None:
            await send({"type": "websocket.send", "text": message["text"]})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"]})


async def respond(send: Send, status: int, content_type: str, body: bytes) -> None:
    """A response that is ready as a whole."""
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
