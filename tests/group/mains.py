"""What the members of the tests run: importable, because member processes import it."""

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import stat
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from loopcore.group import GroupServer, Member, current_member
from loopcore.group.calls import Calls
from loopcore.group.part import Listening, ListenRequest

PATIENCE = 30.0
"""Seconds until a test is given up; nothing takes nearly that long unless it hangs."""

mask_at_import = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if hasattr(signal, "pthread_sigmask") else set()
"""The signals that were blocked when this process imported the program."""

servers: dict[int, GroupServer] = {}
"""The server of each member of this process, by index."""


class Named(asyncio.Protocol):
    """Answers what comes with the member's index, and repeats it."""

    def __init__(self, index: int) -> None:
        self.index = index

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"%d %s" % (self.index, data))


async def serves(member: Member, **options: Any) -> None:
    """A server that continues until it drains."""
    servers[member.index] = await member.create_server(lambda: Named(member.index), "127.0.0.1", 0, **options)
    await member.draining()


async def keeps(member: Member) -> None:
    """The same, without handing over."""
    await serves(member, hand_over=False)


async def only_waits(member: Member) -> None:
    await member.draining()


async def never_drains(member: Member) -> None:
    """Does not know of draining: it is cancelled."""
    member.ready()
    await asyncio.Event().wait()


async def ignores_draining(member: Member) -> None:
    """Needs the deadline."""
    await member.draining()
    await asyncio.Event().wait()


async def blocks(member: Member) -> None:
    """Blocks its loop for good."""
    member.ready()
    threading.Event().wait()


async def returns(member: Member) -> None:
    pass


async def successor_fails_once_ready(member: Member) -> None:
    """Is ready, and in generation 1 fails at once."""
    member.ready()
    if member.generation == 1:
        raise ValueError("too soon")
    await member.draining()


async def fails_at_once(member: Member) -> None:
    if member.index == 1:
        raise ValueError("no database")
    await member.draining()


async def exits(member: Member) -> None:
    member.ready()
    if member.index == 1:
        raise SystemExit(7)
    await member.draining()


async def fails_when_told(member: Member) -> None:
    """Raises when `fail` is called on it."""
    told: asyncio.Future[None] = member.loop.create_future()
    member.told = told  # type: ignore[attr-defined]
    waits = asyncio.ensure_future(member.draining())
    await asyncio.wait((told, waits), return_when=asyncio.FIRST_COMPLETED)
    if told.done():
        waits.cancel()
        raise ValueError("told to fail")


async def member_0_returns_when_told(member: Member) -> None:
    try:
        await fails_when_told(member)
    except ValueError:
        if member.index:
            raise


async def first_successor_fails(member: Member, folder: Path, *, serves: bool = False) -> None:
    """The first successor fails as soon as the file "fail" appears, before it is ready."""
    if serves:
        await member.create_unix_server(lambda: Named(member.index), folder / "socket")
    if member.generation and not (folder / "fail").exists():
        (folder / "successor").touch()
        await appearance(folder / "fail")
        raise ValueError("the successor fails, too")
    await fails_when_told(member)


async def serves_until_told(member: Member, folder: Path) -> None:
    """Returns when told; a successor is ready when the file "be ready" appears."""
    await member.create_unix_server(lambda: Named(member.index), folder / "socket")
    if member.generation:
        (folder / "successor").touch()
        await appearance(folder / "be ready")
    with contextlib.suppress(ValueError):
        await fails_when_told(member)


async def appearance(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(0.01)


def fail() -> None:
    current_member().told.set_result(None)  # type: ignore[attr-defined]


def cut_off() -> None:
    """Lose the link to the group."""
    link: Any = current_member()._life.link
    link._peer._channel.shut()


def delay_answers() -> None:
    """From now on, the thread that reads the calls of this process falls asleep after it has begun one."""
    submit = Calls.submit

    def submit_and_sleep(self: Calls, *arguments: Any) -> "Future[Any]":
        future = submit(self, *arguments)
        time.sleep(0.5)
        return future

    Calls.submit = submit_and_sleep  # type: ignore[method-assign]


def port() -> int:
    """The port that this member serves."""
    number: int = servers[current_member().index].sockets[0].getsockname()[1]
    return number


def index() -> int:
    return current_member().index


def generation() -> int:
    return current_member().generation


async def index_later() -> int:
    await asyncio.sleep(0)
    return current_member().index


def raises() -> None:
    raise LookupError("nothing here")


async def never() -> None:
    await asyncio.Event().wait()


async def asks(other: int) -> int:
    """Ask another member for its index."""
    answer: int = await current_member().run_on(other, index)
    return answer


def inheritable_sockets() -> list[int]:
    """The sockets of this process that a child process would inherit."""
    found = []
    for fd in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode) and os.get_inheritable(fd):
                found.append(fd)
        except OSError:
            pass
    return found


def blocked_at_import() -> set[int]:
    return {int(number) for number in mask_at_import}


async def serves_once_at_0(member: Member) -> None:
    """The successor of member 0 is never ready."""
    if member.index == 0 and member.generation:
        await asyncio.Event().wait()
    await serves(member)


async def serves_two_at_once(member: Member) -> None:
    """The same, with calls at the same time."""
    servers[member.index], other = await asyncio.gather(
        *(member.create_server(lambda: Named(member.index), "127.0.0.1", 0) for _ in range(2))
    )
    assert other.number != servers[member.index].number
    await member.draining()


async def number_of_next_server() -> int:
    """Open a server and close it."""
    member = current_member()
    server = await member.create_server(lambda: Named(member.index), "127.0.0.1", 0)
    server.close()
    return server.number


async def open_servers(count: int) -> list[bool]:
    """Open servers, and return which of them hand over."""
    member = current_member()
    made = [await member.create_server(lambda: Named(member.index), "127.0.0.1", 0) for _ in range(count)]
    return [each._give is not None for each in made]


async def serves_when_released_once(member: Member) -> None:
    """The successor is never ready."""
    if member.generation:
        await asyncio.Event().wait()
    await serves_when_released(member)


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def unpicklable() -> object:
    return threading.Lock()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def asked(client: socket.socket, text: bytes = b"hello") -> int:
    """Return the index of the member that answers."""
    client.sendall(text)
    answer = client.recv(100)
    index, _, repeated = answer.partition(b" ")
    assert repeated == text
    return int(index)


async def never_reports(member: Member) -> None:
    await asyncio.Event().wait()


async def gives_all_away(member: Member) -> None:
    """Every connection goes to the next member."""
    load = member._life._load
    load.choose = lambda number: (member.index + 1) % member.count  # type: ignore[method-assign]
    await serves(member)


async def aborts_at_once(member: Member) -> None:
    """A connection that arrives just as the member ends: its task is cancelled before it begins."""
    server = await member.create_server(lambda: Named(member.index), "127.0.0.1", 0)
    taken, client = socket.socketpair()
    server.take(taken)
    server.abort_clients()
    server.close()
    async with asyncio.timeout(PATIENCE):
        await server.wait_closed()
    with client:
        assert client.recv(1) == b""


async def ends_in_a_handshake(member: Member) -> None:
    """`serve_forever` is cancelled while a client is in its TLS handshake."""
    server = await member.create_server(
        lambda: Named(member.index), "127.0.0.1", 0, ssl=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    )
    serving = asyncio.ensure_future(server.serve_forever())
    taken, client = socket.socketpair()
    server.take(taken)
    for _ in range(3):
        await asyncio.sleep(0)
    serving.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([serving])
    with client:
        assert client.recv(1) == b""


async def serves_unix(member: Member, path: str | Path) -> None:
    servers[member.index] = await member.create_unix_server(lambda: Named(member.index), path)
    await member.draining()


async def serves_given(member: Member) -> None:
    servers[member.index] = await member.create_server(lambda: Named(member.index), sock_index=0)
    await member.draining()


async def answer(reader: Any, writer: Any) -> None:
    while data := await reader.read(100):
        writer.write(b"%d %s" % (current_member().index, data))
        await writer.drain()
    writer.close()


async def serves_streams(member: Member) -> None:
    servers[member.index] = await member.start_server(answer, "127.0.0.1", 0)
    await member.draining()


def close_server() -> None:
    servers[current_member().index].close()


def loop_module() -> str:
    return type(current_member().loop).__module__


async def serves_two(member: Member) -> None:
    """Two servers with the same arguments are two servers."""
    servers[member.index] = await member.create_server(lambda: Named(member.index), "127.0.0.1", 0)
    await member.create_server(lambda: Named(member.index), "127.0.0.1", 0)
    await member.draining()


async def serves_port(member: Member, port: int) -> None:
    await member.create_server(lambda: Named(member.index), "127.0.0.1", port)
    await member.draining()


released = threading.Event()


async def blocks_until_released(member: Member) -> None:
    member.ready()
    released.wait()


async def fails_as_successor(member: Member) -> None:
    if member.generation:
        raise ValueError("no second time")
    await serves(member)


async def serves_when_released(member: Member) -> None:
    """Accepts nothing before it drains."""
    server = await member.create_server(lambda: Named(member.index), "127.0.0.1", 0)
    servers[member.index] = server
    server._accept = lambda listener: None  # type: ignore[method-assign]
    for sock in server.sockets:
        member.loop.remove_reader(sock.fileno())
    await member.draining()


async def serves_tls(member: Member, chain: str) -> None:
    """The certificate and the key are in one file."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain)
    load = member._life._load
    load.choose = lambda number: (member.index + 1) % member.count  # type: ignore[method-assign]
    await serves(member, ssl=context)


async def sockets_of_a_cancelled_server(ticks: int) -> list[int] | None:
    """Cancel `create_server` some ticks after it began to wait; return the descriptors, or None if it came too late."""
    member = current_member()
    link, sockets = member._life.link, []

    def listen(request: ListenRequest) -> Future[Listening]:
        listening = link.listen(request).result(PATIENCE)
        sockets.extend(listening.sockets)
        pending: Future[Listening] = Future()
        member.loop.call_soon(pending.set_result, listening)
        return pending

    member._life.link = SimpleNamespace(listen=listen, release=link.release)  # type: ignore[assignment]
    making = asyncio.ensure_future(member.create_server(asyncio.Protocol, "127.0.0.1", 0))
    for _ in range(ticks):
        await asyncio.sleep(0)
    making.cancel()
    await asyncio.wait([making])
    member._life.link = link
    if making.cancelled():
        return [each.fileno() for each in sockets]
    making.result().close()
    return None
