"""A program that closes a socket between two `sock_recv`: the port holds nothing of it, so the peer hears at once."""

import asyncio
import socket

import pytest

import loopcore


@pytest.mark.parametrize("name", ["epoll", "proactor", "uring"])
def test_a_socket_closed_right_after_a_read_is_closed_for_its_peer(name: str) -> None:
    try:
        loop = loopcore.EventLoop(backend=name)
    except loopcore.BackendUnavailableError as exc:
        pytest.skip(str(exc))

    async def main() -> None:
        ours, peer = socket.socketpair()
        with ours, peer:
            ours.setblocking(False)
            peer.settimeout(60)
            for _ in range(3):
                loop.call_soon(loop.call_soon, peer.send, b"data")
                assert await loop.sock_recv(ours, 10) == b"data"
            ours.close()
            assert peer.recv(1) == b""

    try:
        loop.run_until_complete(asyncio.wait_for(main(), 60))
    finally:
        loop.close()


@pytest.mark.parametrize("name", ["epoll", "proactor", "uring"])
def test_a_new_socket_of_the_same_number_is_read(name: str) -> None:
    try:
        loop = loopcore.EventLoop(backend=name)
    except loopcore.BackendUnavailableError as exc:
        pytest.skip(str(exc))

    async def read(number: int) -> int:
        ours, peer = socket.socketpair()
        with ours, peer:
            ours.setblocking(False)
            loop.call_soon(loop.call_soon, peer.send, b"%d" % number)
            assert await loop.sock_recv(ours, 10) == b"%d" % number
            return ours.fileno()

    async def main() -> list[int]:
        return [await read(number) for number in range(4)]

    try:
        assert len(set(loop.run_until_complete(asyncio.wait_for(main(), 60)))) == 1
    finally:
        loop.close()
