"""Sending files: sock_sendfile, by the kernel (sendfile(2), or a port's SendFile) or by reading and sending.

The kernel takes the bytes from the file's descriptor at an offset that this module counts; the file's own position
is set when the sending ends, however it ends, and shows how much was sent. Over a completion port with
Capability.SEND_FILE the port sends, part by part: on Windows that is TransmitFile. A file without a descriptor, a
descriptor that the kernel refuses, and a platform without either method raise SendfileNotAvailableError, which
distinguishes them from errors of the connection. It is raised only before any byte was sent: then, unless `fallback` is
false, the file is read in the executor and sent from memory.

Checks, errors and their texts are asyncio's. Thread: the loop's own.
"""

import asyncio
import contextlib
import errno
import io
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from loopcore.kernel.completions import Completions
from loopcore.ports.completion import Backend
from loopcore.ports.operations import SendFile
from loopcore.ports.readiness import Capability
from loopcore.services.call import OperationCall
from loopcore.services.sockops import SockOps

READ_SIZE: Final = 256 * 1024
"""Bytes read at a time if the kernel does not send the file."""

PART: Final = 1024 * 1024
"""Bytes of one SendFile: a cancelled one may not be able to report how many of its bytes were sent."""

SETS_POSITION_ALWAYS: Final = sys.version_info >= (3, 14)
"""Whether the file's position is set to `offset` if no byte was sent: the file ends there, or the kernel refused."""

Lend = Callable[[asyncio.Future[Any]], object]
"""Called with the future that waits for the socket, so that the socket's owner can end it if the connection is lost."""

Note = Callable[[int], object]
"""Called with the number of bytes after each send of the kernel."""


class FileHost(Protocol):
    """The loop as this module uses it."""

    @property
    def backend(self) -> Backend: ...

    @property
    def _completions(self) -> Completions | None: ...

    def run_in_executor(self, executor: None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]: ...


class SendFiles:
    """Sends files over plain sockets."""

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
        """Send by the kernel. Raises SendfileNotAvailableError if it cannot; no byte was sent then."""
        port = self._host._completions
        if port is not None and Capability.SEND_FILE not in self._host.backend.capabilities:
            port = None
        if port is None and not hasattr(os, "sendfile"):
            raise asyncio.SendfileNotAvailableError("os.sendfile() is not available")
        descriptor, size = _regular_file(file)
        to_send = size if count is None else min(count, sys.maxsize)
        if not to_send:
            return 0
        sending = Sending(sock, file, descriptor, offset, to_send, whole=count is None, note=note)
        try:
            if port is not None:
                return await self._by_port(sock, sending, port, lend)
            try:
                return sending.step()
            except (BlockingIOError, InterruptedError):
                total: int = await self._sockops.wait_writable(sock, sending.step, lend)
                return total
        finally:
            sending.set_position()

    async def _by_port(self, sock: socket.socket, sending: "Sending", port: Completions, lend: Lend | None) -> int:
        is_over = False
        while not is_over:
            if sock.fileno() < 0 and lend is not None:
                raise ConnectionError("Connection is closed by peer")  # lost between two parts
            part = PartCall(self._host, port, sending.part())
            if lend is not None:
                lend(part)  # type: ignore[arg-type]  # a future through `__class__`
            try:
                await part
            except OSError as exc:
                if exc is part.loss:
                    raise
                raise sending.translated(exc) from exc
            except GeneratorExit:
                part.cancel()  # otherwise the operation would keep the socket open after the program closes it
                raise
            finally:
                if part.outcome is not None:  # also set if the part was cancelled
                    is_over = sending.note_sent(part.outcome)
        return sending.total

    async def _by_reading(self, sock: socket.socket, file: Any, offset: int, count: int | None) -> int:
        async def send(data: memoryview) -> None:
            if (rest := self._sockops.sendall(sock, data)) is not None:
                await rest

        return await self.read_and(send, file, offset, count)

    async def read_and(
        self, send: Callable[[memoryview], Awaitable[object]], file: Any, offset: int, count: int | None
    ) -> int:
        """Read `file` piece by piece, outside the loop's thread, and await `send(piece)` for each; return the sum.

        The memory of a piece is reused for the next one.
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


class PartCall(OperationCall):
    """A SendFile call. A transport may fail it when the connection is lost; it ends once its operation has."""

    __slots__ = ("loss",)

    def __init__(self, loop: Any, port: Completions, operation: SendFile) -> None:
        OperationCall.__init__(self, loop, "", port, operation)
        self.loss: BaseException | None = None
        """The exception with which the connection was lost, if that came first."""

    def set_exception(self, exception: Any) -> None:
        if self._operation.pending:
            self.loss = exception
            self._call_off()  # next, the transport closes the socket; and the file may be closed once this ends
        else:
            OperationCall.set_exception(self, exception)

    def end(self, outcome: Any, error: BaseException | None = None) -> None:
        OperationCall.end(self, outcome, error if self.loss is None else self.loss)


class Sending:
    """The progress of sending one file."""

    __slots__ = ("_count", "_descriptor", "_file", "_note", "_offset", "_socket", "_whole", "total")

    def __init__(
        self,
        sock: socket.socket,
        file: Any,
        descriptor: int,
        offset: int,
        count: int,
        *,
        whole: bool,
        note: Note | None,
    ) -> None:
        # Not its descriptor: if the program closes it in the middle, the number may soon belong to another connection.
        self._socket = sock
        self._file = file
        self._descriptor = descriptor
        self._offset = offset
        self._count = count
        self._whole = whole
        """Whether the file is sent up to its end at that time, not just `count` bytes of it."""
        self._note = note
        self.total = 0

    def step(self) -> int:
        """Send once and return the total if that was all; raise BlockingIOError if more is to be sent later.

        One call per turn, even if the socket would take more: a fast reader must not block the loop.
        """
        try:
            sent = os.sendfile(self._socket.fileno(), self._descriptor, self._offset, self._chunk())
        except (BlockingIOError, InterruptedError):
            raise
        except OSError as exc:
            raise self.translated(exc) from exc
        if self.note_sent(sent):
            return self.total
        raise BlockingIOError

    def part(self) -> SendFile:
        """Return the operation for the next part. Raises OSError if the socket is closed."""
        number = self._socket.fileno()
        if number < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return SendFile(number, self._descriptor, self._offset, min(self._chunk(), PART))

    def note_sent(self, sent: int) -> bool:
        """Record that `sent` bytes were sent; return whether that was all."""
        self._offset += sent
        self.total += sent
        if self._note is not None:
            self._note(sent)
        return sent == 0 or (not self._whole and self.total >= self._count)

    def _chunk(self) -> int:
        return self._count if self._whole else self._count - self.total

    def translated(self, exc: OSError) -> Exception:
        """Return the exception to raise for an error of the kernel."""
        if self.total == 0:
            # Which errors mean "not this kind of file" depends on the kernel (EINVAL, ENOSYS, ENOTSUP ...). An error of
            # the connection occurs again when the fallback sends.
            return asyncio.SendfileNotAvailableError("os.sendfile call failed")
        if exc.errno == errno.ENOTCONN:
            # macOS, when the peer closes in the middle
            return ConnectionError("socket is not connected", errno.ENOTCONN)
        return exc

    def set_position(self) -> None:
        """Set the file's position behind what was sent, unless the program has closed the file meanwhile."""
        if self.total or SETS_POSITION_ALWAYS:
            with contextlib.suppress(Exception):  # a file without a position, or closed, is reported by another error
                if self._file.fileno() == self._descriptor:
                    os.lseek(self._descriptor, self._offset, os.SEEK_SET)


def check_file(file: object, offset: object, count: object) -> None:
    """Raise ValueError or TypeError for arguments that cannot be sent, as asyncio does."""
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
    try:
        descriptor = file.fileno()
        return descriptor, os.fstat(descriptor).st_size
    except (AttributeError, io.UnsupportedOperation, OSError):
        raise asyncio.SendfileNotAvailableError("not a regular file") from None
