"""The kinds of traffic of traffic.py: each function of `KINDS` is one connection, from its opening to its end.

Which bytes, sizes and disturbances there are is drawn from the `random.Random` that it is given.
"""

import asyncio
import contextlib
import gc
import os
import random
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.soak.traffic_ends import End, disturb, dressed, reset, send_all
from tests.transports.tls_support import client_context, server_context

SIZES = (1, 100, 3000, 20_000, 100_000, 500_000)
"""Bytes in one direction, at most."""
MAGIC = b"traffic!"


@dataclass
class Run:
    """What a run has seen, and what its connections share."""

    serving: Any = field(default_factory=server_context)
    trusting: Any = field(default_factory=client_context)
    connections: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    size: int = 0
    """Bytes received and checked."""
    collections: int = 0
    names: int = 0

    def note(self, exc: BaseException | None) -> None:
        if exc is not None:
            self.errors[type(exc).__name__] += 1

    def path(self) -> str:
        """Return an abstract Unix address, of which no file stays."""
        self.names += 1
        return f"\0loopcore-traffic-{os.getpid()}-{self.names}"

    def judge(self, *ends: End, must_be_whole: bool) -> None:
        """Look at ends whose connection is over."""
        for end in ends:
            self.size += end.received
            self.faults += end.faults
            if end.lost.done():
                self.note(end.lost.result())
            if must_be_whole and not end.is_complete():
                why = end.lost.result() if end.lost.done() else "not lost"
                self.faults.append(f"{end.name}: {end.received} of {len(end.expected)} bytes, {why!r}")


Kind = Callable[[Run, random.Random, str], Awaitable[None]]
KINDS: dict[str, Kind] = {}


def kind(made: Kind) -> Kind:
    KINDS[made.__name__] = made
    return made


def body(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randint(1, chance.choice(SIZES)))


def two_ends(chance: random.Random, name: str, *, secure: bool = False) -> tuple[End, End]:
    """Return ends that will talk to each other."""
    one, other = body(chance), body(chance)
    client = End(f"{name} client", one, other, keeps_open=not secure)
    server = End(f"{name} server", other, one, keeps_open=not secure)
    server.sends_files = False
    return client, server


# ---------------------------------------------------------------- connections with a transport at both ends


async def open_pair(run: Run, chance: random.Random, ends: tuple[End, End], where: str, secure: bool) -> None:
    """Connect the ends over TCP or a Unix socket; the listening server is closed when both have a transport."""
    loop = asyncio.get_running_loop()
    client, server = ends
    serving = {"ssl": run.serving} if secure else {}
    connecting = {"ssl": run.trusting, "server_hostname": "localhost"} if secure else {}
    if where == "unix":
        path = run.path()
        listening: Any = await loop.create_unix_server(lambda: dressed(server, chance), path, **serving)
        connection = loop.create_unix_connection(lambda: dressed(client, chance), path, **connecting)
    else:
        listening = await loop.create_server(lambda: dressed(server, chance), "127.0.0.1", 0, **serving)
        address = listening.sockets[0].getsockname()[:2]
        connection = loop.create_connection(lambda: dressed(client, chance), *address, **connecting)
    try:
        await connection
        await server.made
    finally:
        listening.close()


async def upgrade(run: Run, ends: tuple[End, End]) -> None:
    """Put TLS on a connection that is open."""
    loop = asyncio.get_running_loop()
    client, server = ends
    protocols = [end.transport.get_protocol() for end in ends]
    client.transport, server.transport = await asyncio.gather(
        loop.start_tls(client.transport, protocols[0], run.trusting, server_hostname="localhost"),
        loop.start_tls(server.transport, protocols[1], run.serving, server_side=True),
    )


async def talk(end: End, chance: random.Random) -> None:
    """Say everything, hear everything, and close."""
    disturbing = asyncio.ensure_future(disturb(end, chance))
    try:
        await send_all(end, chance)
        if end.transport.can_write_eof() and not end.transport.is_closing() and chance.random() < 0.5:
            end.transport.write_eof()
        end.stage = "waits for the rest"
        await end.came.wait()
        end.stage = "closes"
        end.transport.close()
        await end.lost
    finally:
        await stop(disturbing)
        end.transport.abort()


async def stop(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel, and wait until it is over; errors of what was cancelled are raised."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def interrupt(run: Run, chance: random.Random, ends: tuple[End, End]) -> None:
    """Let both ends talk until one of them ends the connection, in one of the rude ways."""
    way = chance.randrange(3)
    if way == 2:
        # `sendfile` does not read, and an end that closes neither: with both directions full they wait for each other,
        # in asyncio as well.
        for end in ends:
            end.sends_files = False
    tasks = [asyncio.ensure_future(talk(end, chance)) for end in ends]
    await asyncio.wait(tasks, timeout=chance.random() * 0.03)
    rude = chance.choice(ends)
    match way:
        case 0:
            rude.transport.abort()
        case 1:
            reset(rude.transport)
        case 2:
            rude.transport.close()
    await asyncio.wait([end.lost for end in ends])
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, (OSError, RuntimeError)):
            run.note(outcome)  # of sendfile, which tells of the connection's end
        elif outcome is not None:
            raise outcome


async def converse(run: Run, chance: random.Random, name: str, where: str, secure: bool = False) -> None:
    ends = two_ends(chance, name, secure=secure)
    is_upgrade = secure and chance.random() < 0.5
    await open_pair(run, chance, ends, where, secure and not is_upgrade)
    if is_upgrade:
        await upgrade(run, ends)
    if is_clean := chance.random() < 0.7:
        await asyncio.gather(*[talk(end, chance) for end in ends])
    else:
        await interrupt(run, chance, ends)
    run.judge(*ends, must_be_whole=is_clean)


@kind
async def tcp(run: Run, chance: random.Random, name: str) -> None:
    await converse(run, chance, name, "tcp")


@kind
async def unix(run: Run, chance: random.Random, name: str) -> None:
    await converse(run, chance, name, "unix")


@kind
async def tls(run: Run, chance: random.Random, name: str) -> None:
    await converse(run, chance, name, chance.choice(("tcp", "unix")), secure=True)


@kind
async def pipe(run: Run, chance: random.Random, name: str) -> None:
    loop = asyncio.get_running_loop()
    content = body(chance)
    reader, writer = End(f"{name} reader", b"", content), End(f"{name} writer", content, b"")
    reading, writing = os.pipe()
    await loop.connect_read_pipe(lambda: Pipe(reader), os.fdopen(reading, "rb", 0))
    await loop.connect_write_pipe(lambda: Pipe(writer), os.fdopen(writing, "wb", 0))
    sending = asyncio.ensure_future(send_to_pipe(writer, chance))
    is_clean = chance.random() < 0.8
    if not is_clean:
        await asyncio.wait([sending], timeout=chance.random() * 0.02)
        chance.choice((reader, writer)).transport.close()
        await asyncio.wait([sending, writer.lost], return_when=asyncio.FIRST_COMPLETED)
    while not reader.lost.done():
        if not reader.transport.is_closing():
            reader.transport.pause_reading()
            await asyncio.sleep(chance.choice((0, 0.001)))
            reader.transport.resume_reading()
        await asyncio.wait([reader.lost], timeout=chance.choice((0.001, 0.01)))
    await asyncio.gather(sending, writer.lost)
    run.judge(reader, must_be_whole=is_clean)


class Pipe(asyncio.Protocol):
    """An end of a pipe; its transports do without some of what others have."""

    def __init__(self, end: End) -> None:
        self.of = end

    def connection_made(self, transport: Any) -> None:
        self.of.transport = transport

    def data_received(self, data: bytes) -> None:
        self.of.take(data)

    def eof_received(self) -> None:
        self.of.end()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.of.lose(exc)

    def pause_writing(self) -> None:
        self.of.writable.clear()

    def resume_writing(self) -> None:
        self.of.writable.set()


async def send_to_pipe(end: End, chance: random.Random) -> None:
    sent = 0
    while sent < len(end.outgoing) and not end.transport.is_closing():
        size = chance.choice((1, 500, 4096, 70_000))
        end.transport.write(end.outgoing[sent : sent + size])
        sent += size
        await asyncio.sleep(0)
        await end.writable.wait()
    if not end.transport.is_closing():
        end.transport.write_eof()


# ---------------------------------------------------------------- datagrams


class Mailbox(asyncio.DatagramProtocol):
    """Holds each datagram against its own header: sender, number, and random bytes that follow from both."""

    def __init__(self, name: str, peer: bytes) -> None:
        self.name = name
        self.peer = peer
        self.numbers: set[int] = set()
        self.faults: list[str] = []
        self.size = 0
        self.transport: Any = None
        self.writable = asyncio.Event()
        self.writable.set()
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        number = int.from_bytes(data[16:20], "big")
        if data != letter(self.peer, number):
            self.faults.append(f"{self.name}: not a datagram of its peer: {len(data)} bytes, {data[:32].hex()}")
        if number in self.numbers:
            self.faults.append(f"{self.name}: datagram {number} came twice")
        self.numbers.add(number)
        self.size += len(data)

    def has(self, count: int) -> bool:
        return len(self.numbers) >= count or bool(self.faults)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.writable.set()
        self.lost.set_result(exc)


def letter(sender: bytes, number: int) -> bytes:
    """Return datagram `number` of `sender`, which has eight bytes."""
    chance = random.Random(sender + number.to_bytes(4, "big"))
    return MAGIC + sender + number.to_bytes(4, "big") + chance.randbytes(chance.choice((0, 10, 500, 1400, 9000)))


@kind
async def datagrams(run: Run, chance: random.Random, name: str) -> None:
    """Two endpoints; over Unix sockets nothing may be lost, over UDP it may."""
    loop = asyncio.get_running_loop()
    is_unix = chance.random() < 0.5
    keys = [chance.randbytes(8) for _ in range(2)]
    boxes = [Mailbox(f"{name} {side}", keys[1 - side]) for side in range(2)]
    if is_unix:
        socks = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2)]
        for sock in socks:
            sock.bind(run.path())
    else:
        socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
    addresses = [sock.getsockname() for sock in socks]
    if is_connected := chance.random() < 0.5:
        for sock, address in zip(socks, reversed(addresses), strict=True):
            sock.connect(address)
    for sock, box in zip(socks, boxes, strict=True):
        sock.setblocking(False)
        await loop.create_datagram_endpoint(lambda: box, sock=sock)  # noqa: B023
    counts = [chance.randint(0, 200) for _ in boxes]

    async def send(side: int) -> None:
        for number in range(counts[side]):
            boxes[side].transport.sendto(letter(keys[side], number), None if is_connected else addresses[1 - side])
            if chance.random() < 0.3:
                await asyncio.sleep(0)
            await boxes[side].writable.wait()

    await asyncio.gather(send(0), send(1))
    if is_unix:
        while not boxes[0].has(counts[1]) or not boxes[1].has(counts[0]):
            await asyncio.sleep(0.001)
    for box in boxes:
        if chance.random() < 0.5:
            box.transport.abort()
        else:
            box.transport.close()
    for box in boxes:
        run.note(await box.lost)
        run.size += box.size
        run.faults += box.faults


# ---------------------------------------------------------------- streams, and what is dropped


class Client:
    """A stream's client that refers to itself: once it is dropped, only the collector frees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.itself = self


@kind
async def streams(run: Run, chance: random.Random, name: str) -> None:
    """A server and a client with streams; the client may be dropped, or its task cancelled."""
    ends = two_ends(chance, name)
    client, server = ends
    over = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await say_and_hear(server, reader, writer, chance)
        except (OSError, EOFError) as exc:
            run.note(exc)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            over.set_result(None)

    limit = chance.choice((100, 1 << 16))
    if chance.random() < 0.5:
        path = run.path()
        listening = await asyncio.start_unix_server(serve, path, limit=limit)
        reader, writer = await asyncio.open_unix_connection(path)
    else:
        listening = await asyncio.start_server(serve, "127.0.0.1", 0, limit=limit)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname()[:2])
    saying = asyncio.ensure_future(say_and_hear(client, reader, writer, chance))
    match chance.randrange(3):
        case 0:
            await saying
            writer.close()
            await writer.wait_closed()
            await over
            is_clean = True
        case 1:  # dropped at rest: the server is given the end of the stream when the collector has found it
            await saying
            Client(reader, writer)
            del reader, writer, saying
            await over
            is_clean = True
        case _:
            await asyncio.wait([saying], timeout=chance.random() * 0.02)
            await stop_noting(run, saying)
            Client(reader, writer).writer.transport.pause_reading()
            del reader, writer, saying
            await over
            is_clean = False
    listening.close()
    run.judge(client, server, must_be_whole=is_clean)


async def stop_noting(run: Run, task: "asyncio.Future[Any]") -> None:
    try:
        await stop(task)
    except (OSError, EOFError) as exc:
        run.note(exc)


async def say_and_hear(
    end: End, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chance: random.Random
) -> None:
    async def say() -> None:
        sent = 0
        while sent < len(end.outgoing):
            size = chance.choice((1, 100, 5000, 70_000))
            writer.write(end.outgoing[sent : sent + size])
            sent += size
            await writer.drain()

    saying = asyncio.ensure_future(say())
    try:
        while not end.is_complete():
            wanted = len(end.expected) - end.received
            match chance.randrange(3):
                case 0:
                    data = await reader.read(chance.choice((1, 1000, 100_000)))
                case 1:
                    data = await reader.readexactly(min(wanted, chance.choice((1, 500, 20_000))))
                case _:
                    data = await reader.read(wanted)
            if not data:
                break
            end.take(data)
        await saying
    finally:
        await stop(saying)


# ---------------------------------------------------------------- sockets without a transport, and what is cancelled


@kind
async def socks(run: Run, chance: random.Random, name: str) -> None:
    """A socket that is used by the loop's own methods, which are cancelled now and then, against a transport."""
    loop = asyncio.get_running_loop()
    content = body(chance)
    end = End(f"{name} transport", content, b"")
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    with far:
        await loop.connect_accepted_socket(lambda: dressed(end, chance), near)
        await cancel_in_silence(far, chance)
        talking = asyncio.ensure_future(talk_over(end, chance))
        place, skipped = 0, False
        while True:
            receiving = asyncio.ensure_future(receive_some(far, chance))
            if chance.random() < 0.2:
                await asyncio.sleep(chance.choice((0, 0, 0.001)))
                receiving.cancel()
            try:
                data = await receiving
            except asyncio.CancelledError:
                skipped = True  # as with asyncio, what had been received by then is lost
                continue
            if not data:
                break
            found = content.find(data, place) if skipped and len(data) >= 8 else place
            if (content[found : found + len(data)] != data or found < 0) and not (skipped and len(data) < 8):
                end.faults.append(f"{name}: wrong bytes from {place}: {data[:32].hex()}")
                break
            place = found + len(data)
            run.size += len(data)
        if not skipped and place != len(content):
            end.faults.append(f"{name}: {place} of {len(content)} bytes")
        await talking
    run.judge(end, must_be_whole=False)


async def talk_over(end: End, chance: random.Random) -> None:
    await send_all(end, chance)
    end.transport.write_eof()
    end.transport.close()
    await end.lost


async def receive_some(sock: socket.socket, chance: random.Random) -> bytes:
    loop = asyncio.get_running_loop()
    if chance.random() < 0.5:
        return await loop.sock_recv(sock, chance.choice((1, 1000, 100_000)))
    buffer = bytearray(chance.choice((10, 5000, 70_000)))
    count = await loop.sock_recv_into(sock, buffer)
    return bytes(buffer[:count])


async def cancel_in_silence(sock: socket.socket, chance: random.Random) -> None:
    """Cancel receives while nothing is sent: nothing may be lost by it."""
    for _ in range(chance.randrange(4)):
        receiving = asyncio.ensure_future(receive_some(sock, chance))
        await asyncio.sleep(chance.choice((0, 0, 0.001)))
        await stop(receiving)


@kind
async def cancelled(run: Run, chance: random.Random, name: str) -> None:
    """Connects, accepts and sends that are cancelled at any moment; the other side just sees the connection end."""
    loop = asyncio.get_running_loop()
    with socket.socket() as listener, socket.socket() as sock:
        for each in (listener, sock):
            each.setblocking(False)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(loop.sock_accept(listener)),
            asyncio.ensure_future(loop.sock_connect(sock, listener.getsockname())),
        ]
        if chance.random() < 0.5:
            await asyncio.wait(tasks, timeout=chance.choice((0.0, 0.001)))
        else:
            await asyncio.wait(tasks)
            tasks.append(asyncio.ensure_future(loop.sock_sendall(sock, bytes(chance.randint(1, 4_000_000)))))
            await asyncio.wait(tasks[-1:], timeout=chance.choice((0.0, 0.001)))
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(outcomes[0], tuple):
            outcomes[0][0].close()
        for outcome in outcomes:
            run.note(outcome if isinstance(outcome, BaseException) else None)


@kind
async def given_up(run: Run, chance: random.Random, name: str) -> None:
    """Connections that are given up while they are made: TLS or not, the server stops listening meanwhile."""
    loop = asyncio.get_running_loop()
    secure = chance.random() < 0.5
    ends: list[End] = []

    def accept() -> Any:
        ends.append(End(f"{name} server", b"", b"", keeps_open=False))
        return dressed(ends[-1], chance)

    listening = await loop.create_server(accept, "127.0.0.1", 0, ssl=run.serving if secure else None)
    options = {"ssl": run.trusting, "server_hostname": "localhost"} if secure else {}
    address = listening.sockets[0].getsockname()
    clients = [End(f"{name} client", b"", b"", keeps_open=False) for _ in range(3)]
    tasks = [
        asyncio.ensure_future(loop.create_connection(lambda end=end: dressed(end, chance), *address, **options))
        for end in clients
    ]
    await asyncio.wait(tasks, timeout=chance.choice((0, 0.001, 0.003)))
    if chance.random() < 0.5:
        listening.close()
    for task in tasks:
        if chance.random() < 0.7:
            task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, BaseException):
            run.note(outcome)
        else:
            outcome[0].close()
    listening.close()
    # A server's end may be made later still: of a connection that was waiting, or whose handshake goes on.
    for end in (*ends, *clients):
        if end.made.done():
            await end.lost
    run.judge(*ends, *clients, must_be_whole=False)


@kind
async def executor(run: Run, chance: random.Random, name: str) -> None:
    """Jobs in threads that collect garbage, and cycles through tasks and handles to be found there."""
    loop = asyncio.get_running_loop()

    async def wait(for_what: Any) -> None:
        await for_what

    async def drop() -> None:
        event = asyncio.Event()
        task = asyncio.ensure_future(wait(event.wait()))
        timer = loop.call_later(1000, lambda: (task, timer))
        task.add_done_callback(lambda _: timer)
        await asyncio.sleep(0)
        task.cancel()
        timer.cancel()

    await asyncio.gather(*[drop() for _ in range(20)], loop.run_in_executor(None, gc.collect))
    run.collections += 1
