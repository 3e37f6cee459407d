"""Calls: the system call behind each operation, tried without blocking.

`CALLS` has one function for each code. It returns the result, an OSError, or WAIT if the descriptor has to become
ready first; it may raise OSError, and BlockingIOError means WAIT too. An operation that is resumed is
called again with the same Overlapped, which holds its progress.

On POSIX bytes are moved by readv(2) and writev(2), which take the descriptor number, of any kind. Elsewhere, and
for all calls with addresses, Python needs a socket object: the association has one.
"""

import errno
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from loopcore.ports.interest import ERROR, HANGUP
from loopcore.ports.readiness import Capability
from loopcore_backends.proactor._associations import Association, Overlapped
from loopcore_backends.proactor._memory import LARGEST, LentPiece, Memory

WAIT: Final = object()

BY_NUMBER: Final = hasattr(os, "readv") and hasattr(os, "writev")

CAPABILITIES: Final = frozenset(
    {Capability.REGULAR_FILES, *([Capability.SEND_FILE] if hasattr(os, "sendfile") else [])}
)

LONGEST_VECTOR: Final = 1024
"""Buffers in one writev(2): as many as every system accepts (IOV_MAX)."""

IN_PROGRESS: Final = frozenset(
    {errno.EINPROGRESS, errno.EALREADY, errno.EINTR, *([errno.EWOULDBLOCK] if sys.platform == "win32" else [])}
)
"""connect(2)'s errors for a connection under way; EALREADY for one that the parent of a fork has begun.
EAGAIN is not among them: for a Unix socket it is final, and means that the listener's queue is full."""

Call = Callable[[Memory, Association, Overlapped, int], Any]


def accept(memory: Memory, association: Association, overlapped: Overlapped, bits: int) -> int:
    listener: Any = association.socket
    accepted = listener._accept()
    fd: int = accepted[0]
    try:
        os.set_blocking(fd, False) if os.name == "posix" else _unblock(fd)
    except BaseException:
        socket.close(fd)
        raise
    return fd


def _unblock(fd: int) -> None:
    accepted = socket.socket(fileno=fd)
    accepted.setblocking(False)
    accepted.detach()


def connect(memory: Memory, association: Association, overlapped: Overlapped, bits: int) -> Any:
    operation: Any = overlapped.operation
    if not overlapped.begun:
        error = association.socket_for(operation.address).connect_ex(operation.address)
        if error in IN_PROGRESS:
            overlapped.begun = True
            return WAIT
    else:
        error = association.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not error:
            try:
                association.socket.getpeername()
            except OSError:
                if not bits & (ERROR | HANGUP):
                    return WAIT
                raise
    return OSError(error, os.strerror(error)) if error else None


def receive(memory: Memory, association: Association, overlapped: Overlapped, bits: int) -> Any:
    operation: Any = overlapped.operation
    if operation.lend:
        piece = memory.piece(operation.limit)
        try:
            size = _receive_into(association, [memoryview(piece)[: operation.limit]])
        except BaseException:
            memory.take_back(piece)
            raise
        if size:
            return LentPiece(memory, piece, size)
        memory.take_back(piece)
        return b""
    size = _receive_into(association, memory.up_to(operation.limit))
    return bytes(memory.whole[:size])


def _receive_into(association: Association, vector: list[memoryview]) -> int:
    if BY_NUMBER:
        return os.readv(association.fd, vector)
    return association.socket.recv_into(vector[0])


def receive_from(memory: Memory, association: Association, overlapped: Overlapped, bits: int) -> Any:
    operation: Any = overlapped.operation
    size, address = association.socket.recvfrom_into(memory.up_to(operation.limit)[0])
    return bytes(memory.whole[:size]), address


def send(memory: Memory, association: Association, overlapped: Overlapped, bits: int) -> Any:
    """Send the rest; return the total, or how much was sent before an error."""
    if overlapped.rest is None:
        operation: Any = overlapped.operation
        overlapped.rest = views_of(operation.buffers, operation.head)
    rest = overlapped.rest
    while rest:
        vector = rest[:LONGEST_VECTOR]
        offered = sum(map(len, vector))
        try:
            size = _write(association, vector)
        except BlockingIOError:
            return WAIT
        except OSError:
            if overlapped.taken:
                return overlapped.taken
            raise
        overlapped.taken += size
        _advance(rest, size)
        if size < offered:
            return WAIT
    return overlapped.taken


def try_to_send(operation: Any) -> tuple[Any, bool]:
    """Send what `operation`, a Send, offers, by number; return how much was taken or the error, and if that was all."""
    buffers = operation.buffers
    head = operation.head
    try:
        if head or len(buffers) > LONGEST_VECTOR:
            views = views_of(buffers, head)[:LONGEST_VECTOR]
            offered = sum(map(len, views))
            sent = os.writev(operation.fd, views) if offered else 0
            return sent, sent == offered and len(buffers) <= LONGEST_VECTOR
        sent = os.writev(operation.fd, buffers) if buffers else 0
    except BlockingIOError:
        return 0, False
    except OSError as exc:
        return exc, True
    offered = 0
    for buffer in buffers:
        offered += len(buffer) if type(buffer) is bytes else memoryview(buffer).nbytes
    return sent, sent == offered


def _write(association: Association, vector: list[memoryview]) -> int:
    if BY_NUMBER:
        return os.writev(association.fd, vector)
    size = 0
    for view in vector:
        try:
            sent = association.socket.send(view)
        except OSError:
            if size:
                return size
            raise
        size += sent
        if sent < len(view):
            break
    return size


def views_of(buffers: Sequence[Any], head: int) -> list[memoryview]:
    """Return views, in bytes, of `buffers` without the first `head` bytes."""
    views = [memoryview(buffer) for buffer in buffers]
    views = [view if view.format == "B" and view.ndim == 1 else view.cast("B") for view in views]
    _advance(views, head)
    return views


def _advance(views: list[memoryview], size: int) -> None:
    """Drop the first `size` bytes, and empty views before the next."""
    done = 0
    while done < len(views) and size >= len(views[done]):
        size -= len(views[done])
        views[done].release()
        done += 1
    del views[:done]
    if size:
        first = views[0]
        views[0] = first[size:]
        first.release()


def send_to(memory: Memory, association: Association, overlapped: Overlapped, bits: int) -> Any:
    operation: Any = overlapped.operation
    if overlapped.rest is None:
        overlapped.rest = [memoryview(operation.buffer)]
    if operation.address is None:
        return association.socket.send(overlapped.rest[0])
    return association.socket_for(operation.address).sendto(overlapped.rest[0], operation.address)


def shut_down(memory: Memory, association: Association, overlapped: Overlapped, bits: int) -> None:
    operation: Any = overlapped.operation
    association.socket.shutdown(operation.how)


def poll(memory: Memory, association: Association, overlapped: Overlapped, bits: int) -> int:
    """Return at once: a descriptor that is tried at once is always ready."""
    operation: Any = overlapped.operation
    interest: int = operation.interest
    return interest


def read(memory: Memory, association: Association, overlapped: Overlapped, bits: int) -> bytes:
    operation: Any = overlapped.operation
    limit: int = operation.limit
    if limit > LARGEST or not BY_NUMBER:
        return os.read(association.fd, limit)
    size = os.readv(association.fd, memory.up_to(limit))
    return bytes(memory.whole[:size])


def write(memory: Memory, association: Association, overlapped: Overlapped, bits: int) -> Any:
    """Write the rest, to pipes and files."""
    if BY_NUMBER:
        return send(memory, association, overlapped, bits)
    operation: Any = overlapped.operation
    views = views_of(operation.buffers, operation.head)
    return os.write(association.fd, b"".join(views))


def send_file(memory: Memory, association: Association, overlapped: Overlapped, bits: int) -> Any:
    operation: Any = overlapped.operation
    return os.sendfile(operation.fd, operation.file, operation.offset, operation.count)


CALLS: Final[tuple[Call, ...]] = (
    accept, connect, receive, send, receive_from, send_to, shut_down, poll, read, write, send_file,
)  # fmt: skip
"""By code."""
