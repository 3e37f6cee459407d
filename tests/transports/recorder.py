"""What the tests of transports share: a protocol that records what it is told, and connected pairs of sockets.

The transport under test is opened with `connect_accepted_socket`, so the same test runs on asyncio's loop. The
other end is a bare socket, used through the loop's sock_ methods, so that no transport stands between the
test and the kernel.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from tests.coroutines import bounded

T = TypeVar("T")


def run(loop: asyncio.AbstractEventLoop, main: Awaitable[T]) -> T:
    return loop.run_until_complete(bounded(main))


class Events:
    """A list of what happened, that can be waited upon. `react` is called with each event as it happens."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.react: dict[str, Callable[[], object]] = {}
        self.transport: Any = None
        self.keep_open = False
        self._waiters: list[asyncio.Future[None]] = []

    def note(self, *event: Any) -> None:
        self.events.append(event)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        if event[0] in self.react:
            self.react[event[0]]()

    def kinds(self) -> list[str]:
        return [event[0] for event in self.events]

    def received(self) -> bytes:
        return b"".join(event[1] for event in self.events if event[0] == "data")

    def lost_with(self) -> BaseException | None:
        (exc,) = [event[1] for event in self.events if event[0] == "lost"]
        return exc

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
            self._waiters.remove(waiter)

    async def seen(self, kind: str, count: int = 1) -> None:
        await self.until(lambda: self.kinds().count(kind) >= count)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.note("made")

    def eof_received(self) -> bool:
        self.note("eof")
        return self.keep_open

    def pause_writing(self) -> None:
        self.note("pause")

    def resume_writing(self) -> None:
        self.note("resume")

    def connection_lost(self, exc: BaseException | None) -> None:
        self.note("lost", exc)


class Recorder(Events, asyncio.Protocol):
    """Records what it is told."""

    def data_received(self, data: bytes) -> None:
        self.note("data", data)


class BufferedRecorder(Events, asyncio.BufferedProtocol):
    """Records what it is told, and receives into a buffer of its own."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.buffer: Any = bytearray(size)

    def get_buffer(self, sizehint: int) -> Any:
        self.note("get_buffer", sizehint)
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.note("data", bytes(self.buffer[:nbytes]))


def unix_pair() -> tuple[socket.socket, socket.socket]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    return near, far


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        far = socket.create_connection(listener.getsockname())
        near, _ = listener.accept()
    near.setblocking(False)
    far.setblocking(False)
    return near, far


@contextlib.asynccontextmanager
async def opened(
    protocol: Any, make_pair: Callable[[], tuple[socket.socket, socket.socket]] = unix_pair
) -> AsyncIterator[tuple[Any, socket.socket]]:
    """Give `protocol` a transport; yield that and the peer's socket, and leave neither behind."""
    near, far = make_pair()
    with far:
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, near)
        try:
            yield transport, far
        finally:
            if transport._sock is not None:  # asyncio's cannot be aborted once it is closed
                transport.abort()
            await settle()


async def settle(ticks: int = 4) -> None:
    """Let what is scheduled run, and what that schedules."""
    for _ in range(ticks):
        await asyncio.sleep(0)


def waiting(peer: socket.socket) -> bytes:
    """Return the first bytes of what has come in and was not received."""
    try:
        return peer.recv(100, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


async def receive(peer: socket.socket, count: int) -> bytes:
    """Return exactly `count` bytes, or less at the end of the stream."""
    loop = asyncio.get_running_loop()
    got = bytearray()
    while len(got) < count:
        part = await loop.sock_recv(peer, min(count - len(got), 1 << 18))
        if not part:
            break
        got += part
    return bytes(got)


async def receive_all(peer: socket.socket) -> bytes:
    """Return what comes until the end of the stream."""
    return await receive(peer, 1 << 40)


def fill(transport: Any, chunk: bytes = b"x" * 65536) -> int:
    """Write until the kernel takes no more; return how many bytes were written."""
    total = 0
    while transport.get_write_buffer_size() <= 2 * len(chunk):
        transport.write(chunk)
        total += len(chunk)
    return total


def reset(peer: socket.socket) -> None:
    """Close a TCP connection the rude way: the other side gets ECONNRESET."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


class Handled:
    """Collects what a loop reports, instead of logging it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.contexts: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: self.contexts.append(context))

    def messages(self) -> list[str]:
        return [context["message"] for context in self.contexts]
