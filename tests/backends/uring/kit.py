"""What the tests of uring share."""

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.ports.operations import Send
from loopcore_backends.uring import UringBackend

AVAILABLE = UringBackend.probe()
needs_uring = pytest.mark.skipif(not AVAILABLE.available, reason=AVAILABLE.reason or "available")
LARGE = 65536


def send_of(sock: socket.socket, *buffers: Any, quiet: bool = False) -> Send:
    sending = Send(sock.fileno())
    sending.buffers = buffers
    sending.quiet = quiet
    return sending


def fill(sock: socket.socket) -> int:
    """Send until there is no room; return how many bytes went."""
    size = 0
    try:
        while True:
            size += sock.send(b"x" * LARGE)
    except BlockingIOError:
        return size


def in_thread(work: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as exc:
            failures.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
