"""The applications that are put under load: plain asyncio code, the same for every loop.

Each `serve_*` starts listening and returns; the loop then runs until the process ends. The socket of the endpoint is
bound already, so the caller knows the port.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import ssl
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from loopcore_bench.server import BACKLOG, Echo, kept, talker

_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how to serve: a bound socket, the size of a message in bytes, and a PEM file when it is TLS.

    With `pipe` not the socket is served, but two FIFOs: PIPE.in, which the server reads, and PIPE.out.
    """

    listener: socket.socket
    size: int
    certificate: str | None = None
    pipe: str | None = None

    def tls_context(self) -> ssl.SSLContext | None:
        """The server's context, or None without TLS."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        return context


Start = Callable[[Endpoint], Awaitable[None]]


class SplitEcho(Echo):
    """Writes back what it gets in two halves: header and body, as uvicorn does."""

    def data_received(self, data: bytes) -> None:
        half = len(data) >> 1
        self.transport.write(data[:half])
        self.transport.write(data[half:])


class BufferedEcho(asyncio.BufferedProtocol):
    """Reads into one buffer of its own; writes a copy, because a transport may keep what it is given."""

    def __init__(self) -> None:
        self._view = memoryview(bytearray(_BUFFER_BYTES))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(bytes(self._view[:nbytes]))


class DatagramEcho(asyncio.DatagramProtocol):
    """Sends each datagram back to where it came from."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.DatagramTransport = transport  # type: ignore[assignment]

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.transport.sendto(data, address)


def _protocol(factory: Callable[[], asyncio.BaseProtocol]) -> Start:
    async def start(end: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        context = end.tls_context()
        if end.listener.family == socket.AF_UNIX:
            kept.append(await loop.create_unix_server(factory, sock=end.listener, backlog=BACKLOG, ssl=context))
        else:
            kept.append(await loop.create_server(factory, sock=end.listener, backlog=BACKLOG, ssl=context))

    return start


async def serve_datagram(end: Endpoint) -> None:
    """`create_datagram_endpoint` with DatagramEcho."""
    kept.append(await asyncio.get_running_loop().create_datagram_endpoint(DatagramEcho, sock=end.listener))


def _streams(module: str) -> Start:
    """Read exactly one message, write it, drain: on the `start_server` of `module`."""

    async def start(end: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        # Only loopcore brings its own streams; the other loops use asyncio's.
        own = module != "asyncio" and type(loop).__module__.partition(".")[0] == "loopcore"
        start_server: Any = importlib.import_module("loopcore" if own else "asyncio").start_server
        limit = max(1 << 16, 2 * end.size)
        options = {"sock": end.listener, "backlog": BACKLOG, "limit": limit, "ssl": end.tls_context()}
        kept.append(await start_server(talker(end.size), **options))

    return start


def _tell(task: asyncio.Task[None]) -> None:
    """Put the failure of a task on stderr, where the harness looks for the last words of a server."""
    if (error := task.exception()) is not None:
        traceback.print_exception(error)


class PipeEcho(asyncio.Protocol):
    """Writes what it gets to another pipe."""

    def __init__(self, out: asyncio.WriteTransport) -> None:
        self._out = out

    def data_received(self, data: bytes) -> None:
        self._out.write(data)


async def serve_pipe(end: Endpoint) -> None:
    """`connect_write_pipe` and `connect_read_pipe`, on two FIFOs."""
    loop = asyncio.get_running_loop()
    paths = [f"{end.pipe}.{name}" for name in ("out", "in")]
    for path in paths:
        os.mkfifo(path)
        kept.append(os.open(path, os.O_RDWR))  # or it would be at its end until the client has come: fifo(7)
    writing, reading = (
        os.fdopen(os.open(path, mode | os.O_NONBLOCK), name, 0)
        for path, mode, name in zip(paths, (os.O_WRONLY, os.O_RDONLY), ("wb", "rb"), strict=True)
    )
    out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, writing)
    kept.append(await loop.connect_read_pipe(lambda: PipeEcho(out), reading))


async def serve_sock(end: Endpoint) -> None:
    """`loop.sock_accept`, `sock_recv` and `sock_sendall`: no transport at all."""
    loop = asyncio.get_running_loop()
    listener = end.listener
    listener.listen(BACKLOG)
    listener.setblocking(False)

    async def talk(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with sock:
            while data := await loop.sock_recv(sock, _BUFFER_BYTES):
                await loop.sock_sendall(sock, data)

    async def accept() -> None:
        while True:
            sock, _ = await loop.sock_accept(listener)
            sock.setblocking(False)
            task = loop.create_task(talk(sock))
            task.add_done_callback(_tell)
            kept.append(task)

    accepting = loop.create_task(accept())
    accepting.add_done_callback(_tell)
    kept.append(accepting)


async def serve_uvicorn(end: Endpoint) -> None:
    """uvicorn with an application that answers `size` bytes; parser and settings are uvicorn's defaults."""
    uvicorn: Any = importlib.import_module("uvicorn")
    body = b"x" * end.size
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(end.size).encode())]

    async def application(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(
        application,
        log_level="error",
        access_log=False,
        lifespan="off",
        timeout_keep_alive=600,
        ssl_certfile=end.certificate,
        ssl_keyfile=end.certificate,
    )
    server = uvicorn.Server(config)
    serving = asyncio.get_running_loop().create_task(server.serve(sockets=[end.listener]))
    kept.append(serving)
    while not server.started:
        if serving.done():
            raise serving.exception() or RuntimeError("uvicorn ended before it had started")
        await asyncio.sleep(0.01)


async def serve_aiohttp(end: Endpoint) -> None:
    """aiohttp.web with one handler that answers `size` bytes."""
    web: Any = importlib.import_module("aiohttp.web")
    body = b"x" * end.size

    async def answer(request: object) -> object:
        return web.Response(body=body)

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.SockSite(runner, end.listener, backlog=BACKLOG, ssl_context=end.tls_context()).start()
    kept.append(runner)


SERVERS: dict[str, Start] = {
    "protocol": _protocol(Echo),
    "split": _protocol(SplitEcho),
    "buffered": _protocol(BufferedEcho),
    "datagram": serve_datagram,
    "streams": _streams("asyncio"),
    "streams-own": _streams("loopcore"),
    "sock": serve_sock,
    "pipe": serve_pipe,
    "uvicorn": serve_uvicorn,
    "aiohttp": serve_aiohttp,
}
