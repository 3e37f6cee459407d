"""Sending files: sock_sendfile, by the kernel (sendfile(2)) or by reading and sending.

The kernel takes the bytes from the file's descriptor at an offset that is ours to count; the file's own position
is set when the sending ends, however it ends, and says how much has gone. A file that has no descriptor, a
descriptor that sendfile(2) refuses, and a platform without it are told apart from errors of the connection by
SendfileNotAvailableError, raised only while nothing has been sent: then, unless `fallback` is forbidden, the file is
read in the executor and sent from memory.

Checks, errors and their texts are asyncio's. Thread: the loop's own.
"""

import asyncio
import errno
import io
import os
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol

from loopcore.services.sockops import SockOps

READ_SIZE: Final = 256 * 1024
"""Bytes read at a time where the kernel does not send the file by itself."""

Lend = Callable[[asyncio.Future[Any]], object]
"""Is told of the future that waits for the socket, whoever owns that, so that losing the connection can end it."""

Note = Callable[[int], object]
"""Is told how many bytes the kernel has sent, each time that it has."""


class FileHost(Protocol):
    """What sending files needs of a loop."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]: ...


class SendFiles:
    """Files over plain sockets."""

    __slots__ = ("_host", "_sockops")

    def __init__(self, host: FileHost, sockops: SockOps) -> None:
        self._host = host
        self._sockops = sockops

    async def sock_sendfile(
        self, sock: socket.socket, file: Any, offset: int = 0, count: int | None = None, *, fallback: bool = True
    ) -> int:
        """Send `count` bytes of `file`, or all to its end, from `offset` on; return how many were sent.

        Raises SendfileNotAvailableError if the kernel cannot do it and `fallback` is false, OSError for the connection.
        """
        self._sockops.check_socket(sock)
        check_file(file, offset, count)
        if sock.type != socket.SOCK_STREAM:
            raise ValueError("only SOCK_STREAM type sockets are supported")
        try:
            return await self.by_kernel(sock, file, offset, count)
        except asyncio.SendfileNotAvailableError:
            if not fallback:
                raise
        return await self._by_reading(sock, file, offset, count)

    async def by_kernel(
        self,
        sock: socket.socket,
        file: Any,
        offset: int,
        count: int | None,
        lend: Lend | None = None,
        note: Note | None = None,
    ) -> int:
        """Send with sendfile(2). Raises SendfileNotAvailableError if it cannot, and nothing has been sent then."""
        descriptor, size = _regular_file(file)
        to_send = size if count is None else count
        if not to_send:
            return 0
        sending = _Sending(sock.fileno(), descriptor, offset, to_send, whole=count is None, note=note)
        try:
            try:
                return sending.step()
            except (BlockingIOError, InterruptedError):
                total: int = await self._sockops.wait_writable(sock, sending.step, lend)
                return total
        finally:
            sending.set_position()

    async def _by_reading(self, sock: socket.socket, file: Any, offset: int, count: int | None) -> int:
        async def send(data: memoryview) -> None:
            await self._sockops.sendall(sock, data)

        return await self.read_and(send, file, offset, count)

    async def read_and(self, send: Callable[[memoryview], Any], file: Any, offset: int, count: int | None) -> int:
        """Read `file` piece by piece, off the loop's thread, and await `send(piece)` for each; return the sum.

        The memory of a piece is used again for the next one.
        """
        if hasattr(file, "seek"):
            file.seek(offset)
        buffer = memoryview(bytearray(READ_SIZE if count is None else min(count, READ_SIZE)))
        total = 0
        try:
            while count is None or total < count:
                piece = buffer if count is None else buffer[: count - total]
                size = await self._host.run_in_executor(None, file.readinto, piece)
                if not size:
                    break
                await send(piece[:size])
                total += size
        finally:
            if total and hasattr(file, "seek"):
                file.seek(offset + total)
        return total


class _Sending:
    """How far one file has got."""

    __slots__ = ("_count", "_file", "_note", "_offset", "_socket", "_whole", "total")

    def __init__(self, sock: int, file: int, offset: int, count: int, *, whole: bool, note: Note | None) -> None:
        self._socket = sock
        self._file = file
        self._offset = offset
        self._count = count
        self._whole = whole
        """Whether the file is sent to its end, wherever that is by then, and not `count` bytes of it."""
        self._note = note
        self.total = 0

    def step(self) -> int:
        """Send once and return the total if that was all; raise BlockingIOError if more is to be sent later.

        One call a turn, even if the socket would take more: a fast reader must not hold up the loop.
        """
        try:
            sent = os.sendfile(self._socket, self._file, self._offset, self._chunk())
        except (BlockingIOError, InterruptedError):
            raise
        except OSError as exc:
            raise self._translated(exc) from exc
        self._offset += sent
        self.total += sent
        if self._note is not None:
            self._note(sent)
        if sent == 0 or (not self._whole and self.total >= self._count):
            return self.total
        raise BlockingIOError

    def _chunk(self) -> int:
        return self._count if self._whole else self._count - self.total

    def _translated(self, exc: OSError) -> Exception:
        if self.total == 0:
            # Which errors mean "not this kind of file" differs from kernel to kernel (EINVAL, ENOSYS, ENOTSUP ...).
            # An error of the connection comes again when the fall-back sends.
            return asyncio.SendfileNotAvailableError("os.sendfile call failed")
        if exc.errno == errno.ENOTCONN and type(exc) is not ConnectionError:
            # macOS, when the peer closes in the middle
            return ConnectionError("socket is not connected", errno.ENOTCONN)
        return exc

    def set_position(self) -> None:
        if self.total:
            os.lseek(self._file, self._offset, os.SEEK_SET)


def check_file(file: Any, offset: Any, count: Any) -> None:
    """Raise ValueError or TypeError for what cannot be sent, as asyncio does."""
    if "b" not in getattr(file, "mode", "b"):
        raise ValueError("file should be opened in binary mode")
    if count is not None:
        if not isinstance(count, int):
            raise TypeError(f"count must be a positive integer (got {count!r})")
        if count <= 0:
            raise ValueError(f"count must be a positive integer (got {count!r})")
    if not isinstance(offset, int):
        raise TypeError(f"offset must be a non-negative integer (got {offset!r})")
    if offset < 0:
        raise ValueError(f"offset must be a non-negative integer (got {offset!r})")


def _regular_file(file: Any) -> tuple[int, int]:
    """Return the descriptor and the size of `file`. Raises SendfileNotAvailableError if it has none."""
    if not hasattr(os, "sendfile"):
        raise asyncio.SendfileNotAvailableError("os.sendfile() is not available")
    try:
        descriptor = file.fileno()
        return descriptor, os.fstat(descriptor).st_size
    except (AttributeError, io.UnsupportedOperation, OSError):
        raise asyncio.SendfileNotAvailableError("not a regular file") from None
