"""A connection that is being made when the process forks: a program of test_fork.py, as those of fork_programs are."""

import asyncio
import os
import socket

from tests.transports.fork_programs import MakeLoop, in_child, main, reap


def connecting_at_the_fork(make: MakeLoop) -> None:
    """A connection that is being made is the parent's and, if the child waits for it, also the child's.

    The listener's queue is full, so the connection is made when the kernel repeats its first packet, a second later.
    """
    loop = make()
    address = (listener := socket.create_server(("127.0.0.1", 0), backlog=0)).getsockname()
    filler, sock = socket.create_connection(address), socket.socket()
    sock.setblocking(False)
    is_connected, connected = os.pipe()

    async def connect() -> None:
        await loop.sock_connect(sock, address)

    task = loop.create_task(connect())
    loop.run_until_complete(asyncio.sleep(0))

    def cancel() -> None:
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))
        assert task.cancelled()
        sock.close()
        loop.close()

    def wait() -> None:
        loop.run_until_complete(task)
        loop.close()

    def wait_after_the_parent() -> None:
        os.read(is_connected, 1)
        wait()

    for work in (loop.close, cancel):
        reap(in_child(work))
    loop.run_until_complete(asyncio.sleep(0))
    assert not task.done()
    children = [in_child(wait), in_child(wait_after_the_parent)]
    listener.accept()[0].close()
    loop.run_until_complete(task)
    os.write(connected, b"x")
    for child in children:
        reap(child)
    peer = listener.accept()[0]
    peer.send(b"x")
    assert loop.run_until_complete(loop.sock_recv(sock, 10)) == b"x"
    for each in (peer, filler, listener, sock):
        each.close()
    loop.close()


if __name__ == "__main__":
    main(connecting_at_the_fork)
