"""Operations on plain sockets that are left, displaced, or asked of a socket that is closed."""

import asyncio
import socket
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop
Pair = tuple[socket.socket, socket.socket]


@pytest.mark.loopcore_only  # asyncio goes on to watch the socket
async def test_connect_in_a_coroutine_that_is_closed_ends(loop: Any, full_address: tuple[str, int]) -> None:
    with socket.socket() as sock:
        sock.setblocking(False)
        connecting = loop.sock_connect(sock, full_address)
        waited = connecting.send(None)
        await asyncio.sleep(0.01)
        connecting.close()
        await asyncio.sleep(0.01)
        assert waited.done() or loop._completions is None  # an operation would hold the file
        assert loop.remove_writer(sock) is False


async def test_connect_is_under_way_when_the_task_waits(loop: Loop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as sock:
        listening.settimeout(30.0)
        sock.setblocking(False)
        connecting = asyncio.create_task(loop.sock_connect(sock, listening.getsockname()))
        await asyncio.sleep(0)
        listening.accept()[0].close()
        await connecting


async def test_connect_of_a_socket_that_is_closed_says_so(loop: Loop) -> None:
    sock = socket.socket()
    sock.setblocking(False)
    sock.close()
    with pytest.raises(OSError, match=r"Bad file descriptor|not a socket"):
        await loop.sock_connect(sock, ("127.0.0.1", 1))


async def test_a_wait_that_a_transport_displaced_leaves_it_alone_when_it_is_cancelled(loop: Loop, pair: Pair) -> None:
    left, right = pair
    waiting = asyncio.ensure_future(loop.sock_recv(left, 10))
    await asyncio.sleep(0)
    reader, writer = await asyncio.open_connection(sock=left)
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait([waiting])
    right.send(b"hello")
    assert await asyncio.wait_for(reader.read(5), 5) == b"hello"
    writer.close()
    await writer.wait_closed()
