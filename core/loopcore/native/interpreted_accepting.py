"""The Python twin of `accepting.pxd`, for the pure build: same name, same contract."""

import os
import socket
from typing import Any


def accept_one(sock: socket.socket, fd: int) -> tuple[int, Any] | None:
    """Accept a connection; return its descriptor and the peer's address. None: not now.

    It does not block where a socket can be made of it that knows (SOCK_NONBLOCK); elsewhere that is left to the socket.
    """
    # `_accept` is what socket.accept() is made of, on every Python, without the enums.
    try:
        made, address = sock._accept()  # type: ignore[attr-defined]
    except (BlockingIOError, InterruptedError, ConnectionAbortedError):
        return None
    if hasattr(socket, "SOCK_NONBLOCK"):
        os.set_blocking(made, False)
    return made, address
