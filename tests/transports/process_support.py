"""What the tests of subprocesses share: a protocol that records, and a short way to start a shell."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from typing import Any

from tests.transports.recorder import Events


class ProcessRecorder(Events, asyncio.SubprocessProtocol):
    """Records what it is told of a process."""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.note("pipe", fd, data)

    def pipe_connection_lost(self, fd: int, exc: BaseException | None) -> None:
        self.note("pipe lost", fd, exc)

    def process_exited(self) -> None:
        self.note("exited", self.transport.get_returncode())

    def output(self, fd: int) -> bytes:
        return b"".join(event[2] for event in self.events if event[:2] == ("pipe", fd))


async def shell(command: str, **options: Any) -> tuple[Any, ProcessRecorder]:
    transport, protocol = await asyncio.get_running_loop().subprocess_shell(ProcessRecorder, command, **options)
    return transport, protocol


@contextlib.contextmanager
def grandchild() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the beginning of a shell's command, and options, for a grandchild that holds the shell's output.

    It lives until this context is left.
    """
    reading, writing = os.pipe()
    try:
        yield f"cat </dev/fd/{reading} & ", {"pass_fds": [reading]}
    finally:
        os.close(writing)
        os.close(reading)


async def ended(transport: Any, protocol: ProcessRecorder) -> int:
    """Wait until all is over, close, and return the code."""
    await protocol.seen("lost")
    transport.close()
    code: int = transport.get_returncode()
    return code
