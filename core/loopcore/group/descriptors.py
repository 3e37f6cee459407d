"""Descriptors that arrive over Unix sockets (SCM_RIGHTS)."""

import array
import os
import socket
from typing import Final

_CLOEXEC: Final[int] = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


def receive(sock: socket.socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """Return at most `size` bytes and the descriptors that came with them; child processes do not inherit these.

    Not `socket.recv_fds`: CPython 3.11 ignores its `flags`.
    """
    descriptors = array.array("i")
    message, control, _, _ = sock.recvmsg(size, socket.CMSG_LEN(most * descriptors.itemsize), _CLOEXEC)
    for level, kind, content in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    if not _CLOEXEC:  # as on macOS; a process that another thread starts meanwhile may inherit them
        for fd in descriptors:
            os.set_inheritable(fd, False)
    return message, descriptors.tolist()
