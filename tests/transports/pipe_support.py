"""What the tests of pipes share: pairs of file objects that a byte can go through."""

import asyncio
import contextlib
import io
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.transports import windows_pipes

Pair = tuple[Any, Any]
"""The end to read from and the end to write to."""


def pipe_pair() -> Pair:
    if sys.platform == "win32":
        return windows_pipes.make_pair()
    reading, writing = os.pipe()
    return open(reading, "rb", 0), open(writing, "wb", 0)


def socket_pair() -> Pair:
    near, far = socket.socketpair()
    return near, far


def terminal_pair() -> Pair:
    import tty

    master, slave = os.openpty()
    tty.setraw(slave)
    return open(master, "rb", 0), open(slave, "wb", 0)


@contextlib.contextmanager
def made(make: Callable[[], Pair]) -> Iterator[Pair]:
    """Make a pair; whatever end a transport has not closed is closed afterwards."""
    reading, writing = make()
    try:
        yield reading, writing
    finally:
        reading.close()
        writing.close()


def fifo_pair(folder: Path) -> Pair:
    path = folder / "fifo"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    return open(reading, "rb", 0), open(path, "wb", 0)


def put(pipe: Any, data: bytes) -> None:
    """Write to the raw end of a pipe, whatever it is."""
    if isinstance(pipe, socket.socket):
        pipe.sendall(data)
    elif sys.platform == "win32":
        assert windows_pipes.write(pipe, data) == len(data)
    else:
        assert os.write(pipe.fileno(), data) == len(data)


def is_closed(pipe: Any) -> bool:
    if isinstance(pipe, socket.socket):
        return pipe.fileno() == -1
    if sys.platform == "win32":
        return windows_pipes.is_closed(pipe)
    assert isinstance(pipe, io.IOBase)
    return pipe.closed


def read_some(pipe: Any, count: int) -> bytes:
    """Read at most `count` bytes. Raises BlockingIOError if there are none yet."""
    if isinstance(pipe, socket.socket):
        return pipe.recv(count)
    if sys.platform == "win32":
        return windows_pipes.read_some(pipe, count)
    return os.read(pipe.fileno(), count)


async def drain(pipe: Any, count: int) -> bytes:
    """Read exactly `count` bytes from the raw end of a pipe, or less at its end, while the loop goes on."""
    if isinstance(pipe, socket.socket):
        pipe.setblocking(False)
    elif sys.platform != "win32":
        os.set_blocking(pipe.fileno(), False)
    got = bytearray()
    while len(got) < count:
        try:
            part = read_some(pipe, count - len(got))
        except BlockingIOError:
            await asyncio.sleep(0)
            continue
        if not part:
            break
        got += part
    return bytes(got)
