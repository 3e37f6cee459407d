"""What a program does with a loop, a little of each kind: the runs in which one allocation fails.

Each scenario ends, whatever fails in it: what it waits for either comes or ends with an error. None has a
`TaskGroup`: asyncio's waits for ever for a task that it has made and could not watch.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any

LARGE = 300_000
"""Bytes: more than a socket's buffer holds, so that a sender has to wait."""


async def futures(loop: Any) -> None:
    """Waiters, callbacks, results, exceptions, cancellations."""
    done: list[object] = []
    finished, failed, cancelled = (loop.create_future() for _ in range(3))
    for future in (finished, failed, cancelled):
        for _ in range(3):
            future.add_done_callback(done.append)
        future.add_done_callback(print)
        future.remove_done_callback(print)
    loop.call_soon(finished.set_result, 1)
    loop.call_soon(failed.set_exception, ValueError())
    loop.call_soon(cancelled.cancel)
    with contextlib.suppress(ValueError):
        await failed
    await finished
    await asyncio.wait([finished, failed, cancelled])
    await asyncio.gather(finished, failed, cancelled, return_exceptions=True)
    repr(finished), repr(failed), repr(cancelled)


async def tasks(loop: Any) -> None:
    """Tasks that switch, wait for each other, fail, are cancelled; many at once."""

    async def switch(times: int) -> int:
        for _ in range(times):
            await asyncio.sleep(0)
        return times

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError

    assert await asyncio.gather(*(switch(2) for _ in range(70))) == [2] * 70
    await asyncio.gather(fail(), switch(1), return_exceptions=True)
    with contextlib.suppress(asyncio.CancelledError):
        task = loop.create_task(switch(100), name="cancelled")
        await asyncio.sleep(0)
        task.cancel()
        await task
    async with asyncio.timeout(10):
        await asyncio.gather(switch(3), switch(2))
    await asyncio.shield(switch(2))
    await asyncio.wait_for(switch(2), 10)
    repr(asyncio.all_tasks())


async def due(loop: Any) -> None:
    """One timer, which is due: issue 32 lost it, and took the next out of an empty heap."""
    await asyncio.sleep(0.001)


async def timers(loop: Any) -> None:
    """Few and many timers, most of them cancelled before they are due."""
    fired: list[int] = []
    for count in (1, 100, 300):
        handles = [loop.call_later(0.0001 * (place % 7), fired.append, place) for place in range(count)]
        later = [loop.call_later(1000 + place, fired.append, place) for place in range(count)]
        for handle in later:
            handle.cancel()
        for handle in handles[::3]:
            handle.cancel()
        await asyncio.sleep(0.001)
        for handle in handles:
            handle.cancel()


async def callbacks(loop: Any) -> None:
    """What is scheduled in every other way."""
    seen: list[int] = []
    for place in range(70):
        loop.call_soon(seen.append, place)
    for schedule in (loop.call_soon, loop.call_soon_threadsafe):
        schedule(seen.append, 1).cancel()
        schedule(seen.append, 1)
    for schedule in (
        getattr(loop, name, loop.call_soon) for name in ("call_immediate", "next_tick", "queue_microtask")
    ):
        schedule(seen.append, 1)
    await asyncio.sleep(0)
    loop.call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)


async def streams(loop: Any) -> None:
    """A server and its client: lines, a large answer, the end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async for line in reader:
                writer.write(line * (LARGE // len(line)))
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(server.close)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        stack.callback(writer.close)
        for line in (b"one\n", b"two\n"):
            writer.write(line)
            await writer.drain()
            await reader.readexactly(LARGE)
        writer.write_eof()
        await reader.read()
        writer.close()
        await writer.wait_closed()


async def together(*coroutines: Awaitable[object]) -> None:
    """Wait for all; if one fails, cancel the others, which use the same sockets."""
    tasks: list[asyncio.Future[object]] = []
    try:
        for coroutine in coroutines:
            tasks.append(asyncio.ensure_future(coroutine))
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
    for task in tasks:
        task.result()


async def sockets(loop: Any) -> None:
    """The loop's own methods of sockets, and callbacks of descriptors."""
    with contextlib.ExitStack() as stack:
        ours, theirs = (stack.enter_context(each) for each in socket.socketpair())
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.socket())
        for each in (ours, theirs, listener, client):
            each.setblocking(False)

        async def receive() -> None:
            buffer = bytearray(65536)
            received = 0
            while received < LARGE:
                received += await loop.sock_recv_into(theirs, buffer)

        async def accept() -> None:
            accepted, _ = await loop.sock_accept(listener)
            accepted.close()

        await together(receive(), loop.sock_sendall(ours, bytes(LARGE)))
        await together(accept(), loop.sock_connect(client, listener.getsockname()))
        assert await loop.sock_recv(client, 10) == b""
        readable = loop.create_future()
        stack.callback(loop.remove_reader, theirs)
        loop.add_reader(theirs, lambda: readable.done() or readable.set_result(None))
        ours.send(b"x")
        await readable


class Receiver(asyncio.DatagramProtocol):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.append(data)


async def datagrams(loop: Any) -> None:
    """Two endpoints. A datagram may be lost: it is sent again."""
    async with contextlib.AsyncExitStack() as stack:
        receiving, receiver = await loop.create_datagram_endpoint(Receiver, local_addr=("127.0.0.1", 0))
        stack.callback(receiving.close)
        address = receiving.get_extra_info("sockname")
        sending, _ = await loop.create_datagram_endpoint(Receiver, remote_addr=address)
        stack.callback(sending.close)
        while len(receiver.received) < 5:
            for _ in range(3):
                sending.sendto(b"datagram")
            await asyncio.sleep(0.001)
    await asyncio.sleep(0)


SCENARIOS: dict[str, Callable[[Any], Awaitable[None]]] = {
    scenario.__name__: scenario for scenario in (due, futures, tasks, timers, callbacks, streams, sockets, datagrams)
}
