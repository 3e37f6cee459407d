"""The clients of hostile.py: one that behaves, and every way not to.

All run in one process on asyncio's own loop, so that what goes wrong is the server's. The hostile ones do TLS by hand
(tests.transports.tls_support.Peer), and so can stop, cut and garble anywhere.
"""

import asyncio
import contextlib
import json
import os
import random
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from tests.soak.hostile_app import DOWNLOAD
from tests.transports.recorder import reset
from tests.transports.tls_support import Peer, client_context

PATIENCE = 30.0
"""Seconds until an answer is given up; a server that is merely busy needs a fraction of one."""


@dataclass
class Target:
    """Where the server is, and how long those who stall do so, in seconds."""

    port: int
    stall: float
    context: ssl.SSLContext = field(default_factory=client_context)
    chance: random.Random = field(default_factory=lambda: random.Random(3))


Hostile = Callable[[Target], Awaitable[None]]
HOSTILE: list[Hostile] = []


def hostile(behaviour: Hostile) -> Hostile:
    HOSTILE.append(behaviour)
    return behaviour


# --- the client that behaves ------------------------------------------------------------------------


class Session:
    """A connection that is kept alive, and asks one thing after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Return the body of the answer, which must be 200."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        async with asyncio.timeout(PATIENCE):
            await self._writer.drain()
            status, *headers = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            assert status.startswith("HTTP/1.1 200 "), status
            lengths = [line.partition(":")[2] for line in headers if line.lower().startswith("content-length:")]
            return await self._reader.readexactly(int(lengths[0]))


@contextlib.asynccontextmanager
async def session(target: Target) -> AsyncIterator[Session]:
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", target.port, ssl=target.context, server_hostname="localhost"
        )
    try:
        yield Session(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def ask_stats(target: Target, path: str = "/stats") -> dict[str, int]:
    async with session(target) as connection:
        figures: dict[str, int] = json.loads(await connection.ask("GET", path))
        return figures


async def behave(target: Target) -> int:
    """Ask and check a few times over one connection; return how many answers were right: all, or this raises."""
    right = 0
    async with session(target) as connection:
        for size in (0, 10, 1000, 100_000):
            body = target.chance.randbytes(size)
            assert await connection.ask("POST", "/echo", body) == body
            right += 1
        if target.chance.random() < 0.1:
            assert await connection.ask("GET", "/download") == bytes(DOWNLOAD)
            right += 1
    return right


# --- those that do not ------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def connected(target: Target) -> AsyncIterator[socket.socket]:
    """Yield a TCP connection; what goes wrong in the block is what was asked for."""
    with socket.socket() as sock, contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
        sock.setblocking(False)
        async with asyncio.timeout(PATIENCE):
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", target.port))
            yield sock


@contextlib.asynccontextmanager
async def secured(target: Target) -> AsyncIterator[Peer]:
    """Yield a TLS connection, after the handshake."""
    async with connected(target) as sock:
        peer = Peer(sock, target.context, server_side=False)
        await peer.handshake()
        yield peer


def hello(target: Target) -> bytes:
    """The first message of a handshake."""
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        target.context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


async def send(sock: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(sock, data)


@hostile
async def leaves_at_once(target: Target) -> None:
    async with connected(target) as sock:
        reset(sock)


@hostile
async def resets_in_the_handshake(target: Target) -> None:
    async with connected(target) as sock:
        await send(sock, hello(target))
        await asyncio.sleep(target.chance.random() / 100)
        reset(sock)


@hostile
async def stalls_in_the_handshake(target: Target) -> None:
    async with connected(target) as sock:
        await send(sock, hello(target)[:50])
        await asyncio.sleep(target.stall)


@hostile
async def half_closes_in_the_handshake(target: Target) -> None:
    async with connected(target) as sock:
        await send(sock, hello(target)[:50])
        sock.shutdown(socket.SHUT_WR)
        await drain(sock)


@hostile
async def talks_no_tls(target: Target) -> None:
    async with connected(target) as sock:
        await send(sock, target.chance.choice([b"GET / HTTP/1.1\r\n\r\n", os.urandom(3000)]))
        await drain(sock)


@hostile
async def garbles_records(target: Target) -> None:
    async with secured(target) as peer:
        await peer.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
        await send(peer.sock, b"\x17\x03\x03\x00\x40" + os.urandom(64))
        await drain(peer.sock)


@hostile
async def talks_no_http(target: Target) -> None:
    async with secured(target) as peer:
        await peer.send(os.urandom(5000) + b"\r\n\r\n")
        await peer.receive()


@hostile
async def resets_in_a_request(target: Target) -> None:
    async with secured(target) as peer:
        await peer.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + bytes(5000))
        reset(peer.sock)


@hostile
async def stalls_in_a_request(target: Target) -> None:
    async with secured(target) as peer:
        await peer.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-")
        await asyncio.sleep(target.stall)


@hostile
async def half_closes_after_a_request(target: Target) -> None:
    async with secured(target) as peer:
        await peer.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        if target.chance.random() < 0.5:
            await peer.notify()
        peer.sock.shutdown(socket.SHUT_WR)
        await drain(peer.sock)


@hostile
async def sends_huge_headers(target: Target) -> None:
    async with secured(target) as peer:
        await peer.send(b"POST /echo HTTP/1.1\r\nHost: x\r\n")
        for number in range(20):
            await peer.send(b"X-%d: %s\r\n" % (number, b"x" * 60_000))
        await peer.send(b"\r\n")
        await peer.receive()


@hostile
async def leaves_a_download(target: Target) -> None:
    async with secured(target) as peer:
        await peer.send(b"GET /download HTTP/1.1\r\nHost: x\r\n\r\n")
        await peer.receive(200_000)
        if target.chance.random() < 0.5:
            reset(peer.sock)


@hostile
async def stalls_in_a_download(target: Target) -> None:
    async with secured(target) as peer:
        await peer.send(b"GET /download HTTP/1.1\r\nHost: x\r\n\r\n")
        await peer.receive(100_000)
        await asyncio.sleep(target.stall)


async def drain(sock: socket.socket) -> None:
    """Receive until the server ends the connection, or half a second has passed."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            while await asyncio.get_running_loop().sock_recv(sock, 1 << 16):
                pass
