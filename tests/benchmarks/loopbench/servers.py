"""The applications that are put under load: plain asyncio code, the same for every loop.

Each `serve_*` starts listening and returns; the loop then runs until the process ends. A listening socket that is
passed in is bound already, so the caller knows the port.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any

_BUFFER_BYTES = 1 << 18
_BACKLOG = 4096

Start = Callable[[socket.socket, int], Awaitable[None]]
_kept: list[object] = []
"""Servers and tasks of this process; nothing else refers to them."""


class Echo(asyncio.Protocol):
    """Writes back what it gets."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


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


def _protocol(factory: Callable[[], asyncio.BaseProtocol]) -> Start:
    async def start(listener: socket.socket, size: int) -> None:
        loop = asyncio.get_running_loop()
        if listener.family == socket.AF_UNIX:
            _kept.append(await loop.create_unix_server(factory, sock=listener, backlog=_BACKLOG))
        else:
            _kept.append(await loop.create_server(factory, sock=listener, backlog=_BACKLOG))

    return start


async def serve_streams(listener: socket.socket, size: int) -> None:
    """`asyncio.start_server`: read exactly one message, write it, drain."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(await reader.readexactly(size))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    _kept.append(await asyncio.start_server(talk, sock=listener, backlog=_BACKLOG, limit=max(1 << 16, 2 * size)))


async def serve_sock(listener: socket.socket, size: int) -> None:
    """`loop.sock_accept`, `sock_recv` and `sock_sendall`: no transport at all."""
    loop = asyncio.get_running_loop()
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
            _kept.append(loop.create_task(talk(sock)))

    _kept.append(loop.create_task(accept()))


async def serve_uvicorn(listener: socket.socket, size: int) -> None:
    """uvicorn with an application that answers `size` bytes; parser and settings are uvicorn's defaults."""
    uvicorn: Any = importlib.import_module("uvicorn")
    body = b"x" * size
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(size).encode())]

    async def application(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(application, log_level="error", access_log=False, lifespan="off", timeout_keep_alive=600)
    server = uvicorn.Server(config)
    _kept.append(asyncio.get_running_loop().create_task(server.serve(sockets=[listener])))
    while not server.started:
        await asyncio.sleep(0.01)


async def serve_aiohttp(listener: socket.socket, size: int) -> None:
    """aiohttp.web with one handler that answers `size` bytes."""
    web: Any = importlib.import_module("aiohttp.web")
    body = b"x" * size

    async def answer(request: object) -> object:
        return web.Response(body=body)

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener, backlog=_BACKLOG).start()
    _kept.append(runner)


SERVERS: dict[str, Start] = {
    "protocol": _protocol(Echo),
    "split": _protocol(SplitEcho),
    "buffered": _protocol(BufferedEcho),
    "streams": serve_streams,
    "sock": serve_sock,
    "uvicorn": serve_uvicorn,
    "aiohttp": serve_aiohttp,
}
