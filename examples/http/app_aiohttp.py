"""An aiohttp application that serves itself: JSON, a streamed response, a WebSocket.

    python -m loopcore run examples/http/app_aiohttp.py --port 8080
    python examples/http/app_aiohttp.py --port 8080                   on asyncio's own loop

Nothing here knows of loopcore. SIGINT and SIGTERM shut down; the exit code is 0 then.
"""

import argparse
import asyncio
import json
import signal
import sys

from aiohttp import WSCloseCode, WSMsgType, web

SOCKETS = web.AppKey("sockets", set[web.WebSocketResponse])


async def index(request: web.Request) -> web.Response:
    """Which loop answers."""
    loop = asyncio.get_running_loop()
    backend = getattr(getattr(loop, "backend", None), "name", None)
    return web.json_response({"hello": "world", "loop": type(loop).__module__, "backend": backend})


async def echo(request: web.Request) -> web.Response:
    """The body, as it came."""
    return web.Response(body=await request.read(), content_type="application/octet-stream")


async def stream(request: web.Request) -> web.StreamResponse:
    """`n` lines of JSON, each in a separate chunk."""
    n = request.query.get("n", "10")
    if not (n.isascii() and n.isdecimal() and int(n) <= 10_000):
        raise web.HTTPBadRequest(text="n must be a number up to 10000")
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    try:
        await response.prepare(request)
        for number in range(int(n)):
            await response.write(json.dumps({"line": number}).encode() + b"\n")
            # `write` waits only when buffers are full. This lets other tasks run, and notices a client that has left.
            await asyncio.sleep(0)
        await response.write_eof()
    except ConnectionResetError:
        pass  # the client left before the end: there is nothing to report
    return response


async def websocket(request: web.Request) -> web.WebSocketResponse:
    """Text and binary messages go back as they came."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    request.app[SOCKETS].add(socket)
    try:
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                await socket.send_str(message.data)
            elif message.type is WSMsgType.BINARY:
                await socket.send_bytes(message.data)
    finally:
        request.app[SOCKETS].discard(socket)
    return socket


async def close_sockets(app: web.Application) -> None:
    """An open WebSocket would hold up the shutdown until its client leaves."""
    sockets = app[SOCKETS]
    for socket in list(sockets):
        await socket.close(code=WSCloseCode.GOING_AWAY, message=b"server shutdown")


def make_app() -> web.Application:
    app = web.Application()
    app[SOCKETS] = set()
    app.on_shutdown.append(close_sockets)
    app.add_routes(
        [web.get("/", index), web.post("/echo", echo), web.get("/stream", stream), web.get("/ws", websocket)]
    )
    return app


async def serve(host: str, port: int) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit code."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(make_app(), access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        print(f"serving on http://{host}:{runner.addresses[0][1]}", flush=True)
        await stop.wait()
    except OSError as exc:
        print(f"cannot listen on {host}:{port}: {exc}", file=sys.stderr)
        return 1
    finally:
        await runner.cleanup()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="An aiohttp application.")
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    parser.add_argument("--port", type=int, default=8080, help="0 means any free one (default: %(default)s)")
    options = parser.parse_args()
    return asyncio.run(serve(options.host, options.port))


if __name__ == "__main__":
    sys.exit(main())
