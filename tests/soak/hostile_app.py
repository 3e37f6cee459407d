"""The server process of hostile.py: uvicorn, aiohttp or plain streams over TLS, on the loop that is asked for.

    python -m tests.soak.hostile_app uvicorn epoll certificate.pem

Prints its port and serves until SIGTERM. Every server has the same three resources:

    POST /echo        the body, as it came
    GET /download     DOWNLOAD bytes, in pieces
    GET /stats        what the process holds, as JSON
    GET /rest         the same, after everything that is free was given back to the system
"""

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.oracle import ORACLE

PIECE = bytes(64 * 1024)
PIECES = 128
DOWNLOAD = len(PIECE) * PIECES


def rest() -> bytes:
    """Give back what is free, as far as that can be done, and return the figures.

    Without, memory says as much of malloc(3) as of the program: what was freed between two blocks that are in use stays
    with the process.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # glibc's alone
        ctypes.CDLL(None).malloc_trim(0)
    return stats()


def stats() -> bytes:
    """Return the figures of this process; memory in KiB."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    return json.dumps(
        {
            "tasks": len(asyncio.all_tasks()),
            "descriptors": len(os.listdir("/proc/self/fd")),
            "rss_kib": int(fields["VmRSS"].split()[0]),
            "objects": len(gc.get_objects()),
        }
    ).encode()


FIGURES = {"/stats": stats, "/rest": rest}


async def asgi(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
    """The application for uvicorn."""

    async def respond(body: bytes, more: bool = False) -> None:
        length = DOWNLOAD if more else len(body)
        headers = [(b"content-length", str(length).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": more})

    if scope["path"] in FIGURES:
        await respond(FIGURES[scope["path"]]())
    elif scope["path"] == "/echo":
        body = bytearray()
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                await respond(bytes(body))
                return
    else:
        await respond(PIECE, more=True)
        for left in range(PIECES - 2, -1, -1):
            await send({"type": "http.response.body", "body": PIECE, "more_body": left > 0})


async def uvicorn(sock: socket.socket, certificate: str) -> None:
    from uvicorn import Config, Server

    config = Config(
        asgi, ssl_certfile=certificate, loop="none", lifespan="off", log_config=None, timeout_graceful_shutdown=3
    )
    await Server(config).serve([sock])


async def aiohttp(sock: socket.socket, certificate: str) -> None:
    from aiohttp import web

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def show(request: web.Request) -> web.Response:
        return web.Response(body=FIGURES[request.path]())

    async def download(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(DOWNLOAD)})
        try:
            await response.prepare(request)
            for _ in range(PIECES):
                await response.write(PIECE)
        except ConnectionError:
            pass  # it left: nobody to tell
        return response

    app = web.Application()
    app.add_routes(
        [web.post("/echo", echo), web.get("/download", download), *(web.get(path, show) for path in FIGURES)]
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=3)
    await runner.setup()
    await web.SockSite(runner, sock, ssl_context=tls(certificate)).start()
    await terminated()
    await runner.cleanup()


async def streams(sock: socket.socket, certificate: str) -> None:
    """As little of HTTP as the clients need, over asyncio's streams."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await answer(head, reader, writer)
        except OSError:
            with contextlib.suppress(OSError):  # lost already; if nobody asked, the collector may say so
                await writer.wait_closed()
        except (EOFError, ValueError, IndexError, asyncio.LimitOverrunError):
            pass  # what a server hears of clients like these
        finally:
            writer.close()

    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if head.startswith(b"POST /echo "):
            body = await reader.readexactly(int(head.partition(b"ength:")[2].partition(b"\r\n")[0]))
        elif (path := head.split(b" ")[1].decode()) in FIGURES:
            body = FIGURES[path]()
        elif head.startswith(b"GET /download "):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % DOWNLOAD)
            for _ in range(PIECES):
                writer.write(PIECE)
                await writer.drain()
            return
        else:
            raise ValueError("no request")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()

    server = await asyncio.start_server(serve, sock=sock, ssl=tls(certificate))
    await terminated()
    server.close()


def tls(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def terminated() -> None:
    """Return when SIGTERM has come."""
    came = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, came.set)
    await came.wait()


SERVERS: dict[str, Callable[[socket.socket, str], Coroutine[Any, Any, None]]] = {
    "uvicorn": uvicorn,
    "aiohttp": aiohttp,
    "streams": streams,
}


def main() -> None:
    name, backend, certificate = sys.argv[1:]
    # What a loop has to report is an error, and asked for; that a request was none is aiohttp's to say, and expected.
    logging.basicConfig(level=logging.ERROR)
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    make: Callable[[], asyncio.AbstractEventLoop] = asyncio.SelectorEventLoop
    if backend != ORACLE:
        from loopcore import new_event_loop

        def make() -> asyncio.AbstractEventLoop:
            return new_event_loop(backend)

    sock = socket.create_server(("127.0.0.1", 0), backlog=1000)
    print(sock.getsockname()[1], flush=True)
    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(SERVERS[name](sock, certificate))


if __name__ == "__main__":
    main()
