"""The Python twin of `accepting.pxd`, for the pure build: same name, same contract."""

import os
import socket
from typing import Any


def accept_one(sock: socket.socket, fd: int) -> tuple[int, Any] | None:
    """Accept a connection; return its descriptor and the peer's address, or None for "not now".

    The descriptor is non-blocking if the platform lets a socket made from it find that out (SOCK_NONBLOCK); elsewhere
    this is left to the socket.
    """
    # socket.accept() is built on `_accept`, on every Python; this leaves out the enums.
    try:
        made, address = sock._accept()  # type: ignore[attr-defined]
    except (BlockingIOError, InterruptedError, ConnectionAbortedError):
        return None
    if hasattr(socket, "SOCK_NONBLOCK"):
        os.set_blocking(made, False)
    return made, address
