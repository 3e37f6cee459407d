"""What the tests of pipes share: pairs of file objects that a byte can go through."""

import asyncio
import contextlib
import io
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Pair = tuple[Any, Any]
"""The end to read from and the end to write to."""


def pipe_pair() -> Pair:
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
    assert os.write(pipe.fileno(), data) == len(data)


def is_closed(pipe: Any) -> bool:
    if isinstance(pipe, socket.socket):
        return pipe.fileno() == -1
    assert isinstance(pipe, io.IOBase)
    return pipe.closed


async def drain(pipe: Any, count: int) -> bytes:
    """Read exactly `count` bytes from the raw end of a pipe, or less at its end, while the loop goes on."""
    os.set_blocking(pipe.fileno(), False)
    got = bytearray()
    while len(got) < count:
        try:
            part = os.read(pipe.fileno(), count - len(got))
        except BlockingIOError:
            await asyncio.sleep(0)
            continue
        if not part:
            break
        got += part
    return bytes(got)
