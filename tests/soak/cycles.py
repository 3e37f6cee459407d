"""One cycle of each kind of transport: open, use, close. Every one checks what it got, and returns when all is over.

`CYCLES` maps the name of a kind to a coroutine function. The connections are loopcore's at both ends, with a
protocol of a few lines, so that what is counted is the transports; `streams` stands for asyncio's own layers above.
"""

import asyncio
import contextlib
import functools
import socket
import ssl
import tempfile
from typing import Any

from tests.soak.census import Cycle
from tests.transports.pipe_support import pipe_pair
from tests.transports.recorder import reset
from tests.transports.tls_support import client_context, server_context, stranger_context

MESSAGE = b"0123456789abcdef" * 64
CYCLES: dict[str, Cycle] = {}
"""Filled by this module and by cycles_of_services."""

serving = functools.cache(server_context)
trusting = functools.cache(client_context)
trusting_nobody = functools.cache(stranger_context)


def kind(cycle: Cycle) -> Cycle:
    CYCLES[cycle.__name__] = cycle
    return cycle


class Ends(asyncio.Protocol):
    """Collects what comes; `lost` is done when the connection is, `came` when a message is complete."""

    def __init__(self, echo: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.echo = echo
        self.size = 0
        self.transport: Any = None
        self.came = loop.create_future()
        self.lost = loop.create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        if self.echo:
            self.transport.write(data)
        if self.size >= len(MESSAGE) and not self.came.done():
            self.came.set_result(None)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.transport = None
        self.lost.set_result(None)


class Accepting:
    """A protocol factory that remembers the one connection a cycle makes."""

    def __init__(self) -> None:
        self.made: asyncio.Future[Ends] = asyncio.get_running_loop().create_future()

    def __call__(self) -> Ends:
        ends = Ends(echo=True)
        self.made.set_result(ends)
        return ends


async def talk(server: Any, accepting: Accepting, connect: Any) -> None:
    """Connect, have a message echoed, close both ends and the server."""
    transport, client = await connect
    transport.write(MESSAGE)
    await client.came
    assert client.size == len(MESSAGE)
    transport.close()
    await client.lost
    await (await accepting.made).lost
    server.close()
    await server.wait_closed()


@kind
async def tcp() -> None:
    loop, accepting = asyncio.get_running_loop(), Accepting()
    server = await loop.create_server(accepting, "127.0.0.1", 0)
    await talk(server, accepting, loop.create_connection(Ends, *server.sockets[0].getsockname()))


@kind
async def unix() -> None:
    loop, accepting = asyncio.get_running_loop(), Accepting()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/s"
        server = await loop.create_unix_server(accepting, path)
        await talk(server, accepting, loop.create_unix_connection(Ends, path))


@kind
async def tls() -> None:
    loop, accepting = asyncio.get_running_loop(), Accepting()
    server = await loop.create_server(accepting, "127.0.0.1", 0, ssl=serving())
    address = server.sockets[0].getsockname()
    connect = loop.create_connection(Ends, *address, ssl=trusting(), server_hostname="localhost")
    await talk(server, accepting, connect)


@kind
async def start_tls() -> None:
    """A plain connection that both ends upgrade."""
    loop, accepting = asyncio.get_running_loop(), Accepting()
    server = await loop.create_server(accepting, "127.0.0.1", 0)

    async def connect() -> Any:
        plain, client = await loop.create_connection(Ends, *server.sockets[0].getsockname())
        ours = await accepting.made
        while ours.transport is None:
            await asyncio.sleep(0)
        ours.transport, transport = await asyncio.gather(
            loop.start_tls(ours.transport, ours, serving(), server_side=True),
            loop.start_tls(plain, client, trusting(), server_hostname="localhost"),
        )
        return transport, client

    await talk(server, accepting, connect())


@kind
async def tls_refused() -> None:
    """A handshake that fails: the exception and its traceback hold on to nothing."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0, ssl=serving())
    address = server.sockets[0].getsockname()
    with contextlib.suppress(ssl.SSLError):
        await loop.create_connection(Ends, *address, ssl=trusting_nobody(), server_hostname="localhost")
        raise AssertionError("connected")
    server.close()
    await server.wait_closed()


@kind
async def streams() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(len(MESSAGE)))
        writer.close()
        await writer.wait_closed()
        served.set()

    served = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(MESSAGE)
    assert await reader.read() == MESSAGE
    writer.close()
    await writer.wait_closed()
    await served.wait()
    server.close()
    await server.wait_closed()


@kind
async def server() -> None:
    made = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    assert made.is_serving()
    made.close()
    await made.wait_closed()


@kind
async def refused() -> None:
    """A port where nobody listens: the errors of getaddrinfo's addresses hold on to nothing."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with contextlib.suppress(ConnectionRefusedError):
            await asyncio.get_running_loop().create_connection(Ends, *taken.getsockname())
            raise AssertionError("connected")


@kind
async def reset_by_peer() -> None:
    loop, accepting = asyncio.get_running_loop(), Accepting()
    server = await loop.create_server(accepting, "127.0.0.1", 0)
    peer = socket.create_connection(server.sockets[0].getsockname())
    ours = await accepting.made
    reset(peer)
    await ours.lost
    server.close()
    await server.wait_closed()


@kind
async def aborted_while_full() -> None:
    """A connection that is torn down with more in its buffers than the peer has taken."""
    near, far = socket.socketpair()
    with far:
        transport, ends = await asyncio.get_running_loop().connect_accepted_socket(Ends, near)
        while transport.get_write_buffer_size() < 1 << 17:
            transport.write(MESSAGE * 64)
        transport.abort()
        await ends.lost


class Packets(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.came = asyncio.get_running_loop().create_future()
        self.lost = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.came.set_result(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(None)


@kind
async def udp() -> None:
    loop = asyncio.get_running_loop()
    one, first = await loop.create_datagram_endpoint(Packets, local_addr=("127.0.0.1", 0))
    other, second = await loop.create_datagram_endpoint(Packets, remote_addr=one.get_extra_info("sockname"))
    other.sendto(b"there")
    assert await first.came == b"there"
    one.sendto(b"and back", other.get_extra_info("sockname"))
    assert await second.came == b"and back"
    for transport, protocol in ((one, first), (other, second)):
        transport.close()
        await protocol.lost


@kind
async def read_pipe() -> None:
    reading, writing = pipe_pair()
    _, ends = await asyncio.get_running_loop().connect_read_pipe(Ends, reading)
    writing.write(MESSAGE)
    await ends.came
    writing.close()
    await ends.lost


@kind
async def write_pipe() -> None:
    reading, writing = pipe_pair()
    transport, ends = await asyncio.get_running_loop().connect_write_pipe(Ends, writing)
    transport.write(MESSAGE)
    transport.close()
    await ends.lost
    with reading:
        assert reading.read() == MESSAGE


class Process(asyncio.SubprocessProtocol):
    """Not asyncio's own: that one and the StreamWriter of its standard input hold each other."""

    def __init__(self) -> None:
        self.output = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output += data

    def connection_lost(self, exc: BaseException | None) -> None:
        self.ended.set_result(None)


@kind
async def subprocess() -> None:
    transport, protocol = await asyncio.get_running_loop().subprocess_exec(Process, "cat")
    stdin: Any = transport.get_pipe_transport(0)
    stdin.write(MESSAGE)
    stdin.close()
    await protocol.ended
    assert protocol.output == MESSAGE
    assert transport.get_returncode() == 0
    transport.close()
