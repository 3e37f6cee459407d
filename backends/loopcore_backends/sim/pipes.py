"""Pipes: pipe(7)."""

import errno
from typing import Any, Final

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore_backends.sim.descriptors import Description, error

CAPACITY: Final = 65_536
_ATOMIC: Final = 4_096


class _Pipe:
    def __init__(self) -> None:
        self.data = bytearray()
        self.reader: ReadEnd | None = None
        self.writer: WriteEnd | None = None


class ReadEnd(Description):
    """The end that is read from."""

    kind = "pipe"

    def __init__(self, host: Any, pipe: _Pipe) -> None:
        super().__init__(host)
        self._pipe = pipe
        pipe.reader = self

    def read(self, size: int) -> bytes:
        pipe = self._pipe
        if not pipe.data:
            if pipe.writer is None:
                return b""
            raise error(errno.EAGAIN)
        data = bytes(pipe.data[:size])
        del pipe.data[:size]
        if pipe.writer is not None:
            pipe.writer.changed()
        return data

    def write(self, data: "bytes | memoryview") -> int:
        raise error(errno.EBADF)

    def poll(self) -> int:
        pipe = self._pipe
        return (READ if pipe.data else 0) | (HANGUP if pipe.writer is None else 0)

    def close(self) -> None:
        self._pipe.reader = None
        if self._pipe.writer is not None:
            self._pipe.writer.changed()


class WriteEnd(Description):
    """The end that is written to."""

    kind = "pipe"

    def __init__(self, host: Any, pipe: _Pipe) -> None:
        super().__init__(host)
        self._pipe = pipe
        pipe.writer = self

    def read(self, size: int) -> bytes:
        raise error(errno.EBADF)

    def write(self, data: "bytes | memoryview") -> int:
        pipe = self._pipe
        if pipe.reader is None:
            raise error(errno.EPIPE)
        free = CAPACITY - len(pipe.data)
        if not free or (len(data) <= _ATOMIC and len(data) > free):  # up to PIPE_BUF bytes are written as a whole
            raise error(errno.EAGAIN)
        taken = data[:free]
        pipe.data += taken
        if taken:
            pipe.reader.changed()
        return len(taken)

    def poll(self) -> int:
        pipe = self._pipe
        if pipe.reader is None:
            return WRITE | ERROR
        return WRITE if CAPACITY - len(pipe.data) >= _ATOMIC else 0

    def close(self) -> None:
        self._pipe.writer = None
        if self._pipe.reader is not None:
            self._pipe.reader.changed()


def make_pipe(host: Any) -> tuple[ReadEnd, WriteEnd]:
    """Return both ends of a new pipe."""
    pipe = _Pipe()
    return ReadEnd(host, pipe), WriteEnd(host, pipe)
