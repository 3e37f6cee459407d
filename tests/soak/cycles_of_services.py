"""The cycles of what is no transport: socket calls, files, descriptors, timers, signals, threads, generators, tasks."""

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.soak.cycles import MESSAGE, Ends, kind
from tests.transports.recorder import settle


@kind
async def sock_calls() -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as listener, socket.socket() as client:
        for sock in (listener, client):
            sock.setblocking(False)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        (peer, _), _ = await asyncio.gather(
            loop.sock_accept(listener), loop.sock_connect(client, listener.getsockname())
        )
        with peer:
            waiting = asyncio.ensure_future(loop.sock_recv(peer, 100))
            abandoned = asyncio.ensure_future(loop.sock_recv(client, 100))
            await settle()
            await loop.sock_sendall(client, b"there")
            assert await waiting == b"there"
            abandoned.cancel()
            await asyncio.wait([abandoned])
            await loop.sock_sendall(peer, b"and back")
            buffer = bytearray(100)
            assert await loop.sock_recv_into(client, buffer) == len(b"and back")


@kind
async def sock_datagrams() -> None:
    loop = asyncio.get_running_loop()
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        for sock in (one, other):
            sock.setblocking(False)
            sock.bind(("127.0.0.1", 0))
        await loop.sock_sendto(one, b"there", other.getsockname())
        assert await loop.sock_recvfrom(other, 100) == (b"there", one.getsockname())
        await loop.sock_sendto(other, b"back", one.getsockname())
        assert (await loop.sock_recvfrom_into(one, bytearray(100)))[0] == len(b"back")


@kind
async def sendfile() -> None:
    """From a transport and from a plain socket."""
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryFile() as file:
        file.write(MESSAGE)
        file.flush()
        near, far = socket.socketpair()
        far.setblocking(False)
        with far:
            transport, ends = await loop.connect_accepted_socket(Ends, near)
            assert await loop.sendfile(transport, file) == len(MESSAGE)
            assert await loop.sock_recv(far, 1 << 16) == MESSAGE
            assert await loop.sock_sendfile(far, file) == len(MESSAGE)
            await ends.came
            transport.close()
            await ends.lost


@kind
async def readers_and_writers() -> None:
    loop = asyncio.get_running_loop()
    one, other = socket.socketpair()
    with one, other:
        writable, readable = loop.create_future(), loop.create_future()

        def send() -> None:
            assert loop.remove_writer(one)
            one.send(b"x")
            writable.set_result(None)

        def receive() -> None:
            assert loop.remove_reader(other)
            readable.set_result(other.recv(1))

        loop.add_reader(other, receive)
        loop.add_writer(one, send)
        await writable
        assert await readable == b"x"


@kind
async def timers() -> None:
    loop = asyncio.get_running_loop()
    fired: asyncio.Future[None] = loop.create_future()
    loop.call_later(0.0001, fired.set_result, None)
    never = [loop.call_at(loop.time() + 3600, print) for _ in range(10)]
    await fired
    for timer in never:
        timer.cancel()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.sleep(3600)


@kind
async def signals() -> None:
    loop = asyncio.get_running_loop()
    caught = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR1, caught.set_result, None)
    os.kill(os.getpid(), signal.SIGUSR1)
    await caught
    assert loop.remove_signal_handler(signal.SIGUSR1)


@kind
async def executor_jobs() -> None:
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, sum, (1, 2)) == 3
    assert await asyncio.to_thread(Path("/").is_dir)
    with contextlib.suppress(ZeroDivisionError):
        await loop.run_in_executor(None, divmod, 1, 0)
    assert await loop.getaddrinfo("127.0.0.1", 80)


@kind
async def asynchronous_generators() -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(0)
            closed.set()

    for drops in (False, True):
        closed = asyncio.Event()
        generator: Any = numbers()
        assert await anext(generator) == 1
        if drops:
            del generator
        else:
            await generator.aclose()
        await closed.wait()


@kind
async def tasks() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError

    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    failed, waiting = await asyncio.wait(
        {asyncio.ensure_future(fail()), asyncio.ensure_future(wait())}, return_when="FIRST_EXCEPTION"
    )
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(task.exception()) for task in failed] == [LookupError]
