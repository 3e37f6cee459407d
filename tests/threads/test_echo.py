"""Loops in several threads move bytes at the same time, and each connection gets its own: compared byte for byte."""

import asyncio
import contextlib
import random
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.threads.loops import LOOPS, ROUNDS, Factory, content, each, meet
from tests.transports.tls_support import client_context, server_context

CONNECTIONS = 3
SIZE = 60_000 * ROUNDS
DATAGRAMS = 60 * ROUNDS
unix = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets here")


class Echo(asyncio.Protocol):
    """Sends back what it gets, and counts it."""

    def __init__(self) -> None:
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def pause_writing(self) -> None:
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.transport.resume_reading()


class BufferedEcho(asyncio.BufferedProtocol):
    """The same, into a buffer of the protocol's own."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.buffer = bytearray(3000)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(bytes(self.buffer[:nbytes]))


@contextlib.asynccontextmanager
async def serving(way: str, path: Path, tls: ssl.SSLContext | None) -> AsyncIterator[Any]:
    """Serve in this loop; yields the address."""
    loop = asyncio.get_running_loop()
    if way == "unix":
        server = await loop.create_unix_server(Echo, str(path))
        address: Any = str(path)
    else:
        server = await loop.create_server(BufferedEcho if way == "buffered" else Echo, "127.0.0.1", 0, ssl=tls)
        address = server.sockets[0].getsockname()[1]
    try:
        yield address
    finally:
        server.close()
        await server.wait_closed()


async def converse(way: str, address: Any, tls: ssl.SSLContext | None, sent: bytes) -> bytes:
    """Connect, send in pieces while the answer comes, and return the answer."""
    if way == "unix":
        reader, writer = await asyncio.open_unix_connection(address)
    else:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", address, ssl=tls, server_hostname="localhost" if tls else None
        )

    async def send() -> None:
        rng, at = random.Random(sent[:8]), 0
        while at < len(sent):
            step = rng.choice((1, 700, 5000, 70_000))
            writer.write(sent[at : at + step])
            await writer.drain()
            at += step

    sending = asyncio.create_task(send())
    try:
        return await reader.readexactly(len(sent))
    finally:
        await sending
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@pytest.mark.parametrize("way", ["tcp", "buffered", pytest.param("unix", marks=unix), "tls"])
def test_each_connection_gets_its_own_bytes(factory: Factory, way: str, tmp_path: Path) -> None:
    """Each loop serves, and connects to its own server and to its neighbour's, in another thread."""
    addresses: dict[int, Any] = {}
    ready, done = threading.Barrier(LOOPS), threading.Barrier(LOOPS)
    tls = (server_context(), client_context()) if way == "tls" else (None, None)

    async def main(number: int) -> None:
        async with serving(way, tmp_path / str(number), tls[0]) as address:
            addresses[number] = address
            await meet(ready)
            sent = [content(way, number, client, size=SIZE) for client in range(CONNECTIONS)]
            answers = await asyncio.gather(
                *[converse(way, addresses[(number + client) % LOOPS], tls[1], what) for client, what in enumerate(sent)]
            )
            assert answers == sent
            await meet(done)

    each(factory, main)


class DatagramEcho(asyncio.DatagramProtocol):
    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.transport.sendto(data, addr)


class Answers(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.arrived: asyncio.Queue[tuple[bytes, Any]] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.arrived.put_nowait((data, addr))


def test_each_endpoint_gets_its_own_datagrams(factory: Factory) -> None:
    addresses: dict[int, Any] = {}
    ready, done = threading.Barrier(LOOPS), threading.Barrier(LOOPS)

    async def main(number: int) -> None:
        loop = asyncio.get_running_loop()
        server, _ = await loop.create_datagram_endpoint(DatagramEcho, ("127.0.0.1", 0))
        addresses[number] = server.get_extra_info("sockname")
        client, answers = await loop.create_datagram_endpoint(Answers, ("127.0.0.1", 0))
        await meet(ready)
        rng = random.Random(number)
        for turn in range(DATAGRAMS):
            address = addresses[(number + turn) % LOOPS]
            sent = content(number, turn, size=rng.choice((1, 100, 1400, 9000)))
            client.sendto(sent, address)
            assert await answers.arrived.get() == (sent, address)
        await meet(done)
        client.close()
        server.close()
        await asyncio.sleep(0)

    each(factory, main)


def test_each_socket_gets_its_own_bytes(factory: Factory) -> None:
    async def main(number: int) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            buffer = bytearray(5000)
            for turn in range(50 * ROUNDS):
                sent = content(number, turn, size=1 + turn * 97 % 5000)
                await loop.sock_sendall(ours, sent)
                if turn % 2:
                    got = await loop.sock_recv_into(theirs, buffer)
                    assert buffer[:got] == sent
                else:
                    assert await loop.sock_recv(theirs, 5000) == sent

    each(factory, main)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes have no descriptors here")
def test_each_pipe_gets_its_own_bytes(factory: Factory) -> None:
    import os

    async def main(number: int) -> None:
        loop = asyncio.get_running_loop()
        for turn in range(3 * ROUNDS):
            reading, writing = os.pipe()
            reader = asyncio.StreamReader()
            source, _ = await loop.connect_read_pipe(
                lambda reader=reader: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
            )
            sink, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(writing, "wb", 0))
            sent = content("pipe", number, turn, size=SIZE // 2)
            sink.write(sent)
            assert await reader.readexactly(len(sent)) == sent
            sink.close()
            assert await reader.read() == b""
            source.close()
            await asyncio.sleep(0)

    each(factory, main)
