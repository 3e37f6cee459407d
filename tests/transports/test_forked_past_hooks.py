"""A transport in a child that was forked past Python's hooks, as C code forks: its socket can be closed there."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

import loopcore
from loopcore.errors import BackendUnavailableError
from tests import c_fork

pytestmark = pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="forks as C code does")


def in_child(work: Callable[[], object]) -> int:
    """Fork as C does, call `work` in the child, and return the child's exit code: what `work` returned."""
    child = c_fork.fork()
    if child == 0:
        code = 99
        try:
            code = int(work())  # type: ignore[call-overload]
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def make_loop(backend: str) -> loopcore.EventLoop:
    try:
        return loopcore.new_event_loop(backend)
    except BackendUnavailableError as exc:
        pytest.skip(str(exc))


@pytest.mark.parametrize("backend", ["uring", "proactor", "epoll"])
@pytest.mark.parametrize("ending", ["abort", "close"])
def test_the_socket_is_closed_whatever_the_port_says(backend: str, ending: str) -> None:
    loop = make_loop(backend)
    left, right = socket.socketpair()

    async def main() -> None:
        transport: Any
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, left)
        fd = left.fileno()
        await asyncio.sleep(0)  # now it is being read

        def end() -> int:
            try:
                getattr(transport, ending)()
            except Exception:
                # Nothing can follow, because the loop cannot wait here.
                return 1 if is_open(fd) else 0
            return 0  # the port agreed, and the rest is the loop's

        assert in_child(end) == 0
        right.send(b"the parent's is open")
        transport.close()

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
        right.close()
