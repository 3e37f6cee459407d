"""ReadPipeTransport and WritePipeTransport: asyncio's transports for the two ends of pipes.

Each owns its file object from its construction on, and closes it once, after `connection_lost`. If construction
is refused (ValueError), the file stays the caller's. The life of a pipe is that of every connection
(`loopcore.transports.lifecycle`); a write end is also lost when its reader leaves.

Writes are sent at once; unlike those of a socket, they are not joined at the end of the tick. The other end is often
a thread of the same process, or a test, in a blocking read, which would hang if the write waited for the tick.

Differences from asyncio: writing resumes at the low-water mark, not only when all is written; bytes received
from the peer of a write-only socket do not end the transport (asyncio takes them for the peer's closing); `close` on a
loop that is already closed closes the file, where asyncio raises RuntimeError and leaks it.

isinstance(transport, asyncio.ReadTransport / asyncio.WriteTransport) holds through `__class__`, for the reason given
in `loopcore.transports.stream`; asyncio's write end is an asyncio.Transport that cannot read. Thread: the loop's own.
Errors end the connection; `connection_lost` receives the error.
"""

import asyncio
import errno
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, Final

from loopcore.log import logger
from loopcore.transports.buffers import immutable
from loopcore.transports.driver import StreamDriver
from loopcore.transports.driver_choice import make_pipe_driver
from loopcore.transports.lifecycle import OPEN, Connection
from loopcore.transports.stream import LOST_WRITES_BEFORE_WARNING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import HasFileno

    from loopcore.kernel.scheduler import Scheduler
    from loopcore.transports.accepted import Owner

KINDS: Final = (
    (stat.S_ISREG, "a regular file"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISBLK, "a block device"),
)


def check_kind(pipe: "HasFileno") -> int:
    """Return the mode of the file that `pipe` is open on; make its descriptor non-blocking.

    Raises ValueError for kinds of files that never report readiness: regular files, directories, block devices. On
    Windows only the HANDLE of a pipe is accepted (`asyncio.windows_utils.PipeHandle`).
    """
    fd = pipe.fileno()
    if sys.platform == "win32":
        _check_handle(pipe)
        return stat.S_IFIFO
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)):
        kind = next((name for is_kind, name in KINDS if is_kind(mode)), "something else")
        raise ValueError(
            f"Pipe transport is for pipes, sockets and character devices only, and {pipe!r} is {kind}, which never "
            "says that it is ready; read and write it in a thread, with asyncio.to_thread() or loop.run_in_executor()"
        )
    os.set_blocking(fd, False)
    return mode


def _check_handle(pipe: "HasFileno") -> None:
    if sys.platform == "win32":
        import _winapi  # exists only on Windows

        try:
            if _winapi.GetFileType(pipe.fileno()) == _winapi.FILE_TYPE_PIPE:
                return
        except OSError:  # a C library descriptor number, for instance
            pass
        try:
            mode = os.fstat(pipe.fileno()).st_mode
        except OSError:
            mode = 0
        kind = next((name for is_kind, name in KINDS if is_kind(mode)), "not one")
        raise ValueError(
            f"Pipe transport is for pipes that were made for overlapped work, and {pipe!r} is {kind}; make one with "
            "asyncio.windows_utils.pipe(), and read and write a file in a thread, with asyncio.to_thread()"
        )


class PipeTransport(Connection):
    """The part that both ends share."""

    __slots__ = ()

    def _connect(
        self,
        scheduler: "Scheduler",
        pipe: "Owner",
        protocol: asyncio.BaseProtocol,
        waiter: "asyncio.Future[None] | None",
        writes: bool,
    ) -> None:
        connection_made = protocol.connection_made  # fails first for an object that is not a protocol
        mode = check_kind(pipe)
        self._begin(scheduler, {"pipe": pipe})
        self._protocol = protocol
        self._driver: StreamDriver = make_pipe_driver(scheduler, self, pipe, self._context, mode, writes)
        self._open_soon(connection_made, waiter)

    @property
    def _pipe(self) -> Any:
        """The file; None when it is closed. asyncio's name, which programs look up and CPython's tests set."""
        return self._driver.sock

    @_pipe.setter
    def _pipe(self, pipe: Any) -> None:
        self._driver.sock = pipe

    def __repr__(self) -> str:
        shown = Connection.__repr__(self)
        return shown.replace(" fd=", " open fd=", 1) if self._state == OPEN else shown  # as asyncio's pipes

    def _own_descriptor(self) -> None:
        """Leave the table of transports alone: as in asyncio, a program may use the descriptor of a pipe."""

    def _failed(self, exc: BaseException, message: str) -> None:
        Connection._failed(self, exc, message.replace("socket", "pipe"))

    # A loop that is already closed has neither a table nor a tick: the file is closed at once.

    def _finish_closing(self) -> None:
        if self._loop.is_closed():
            self._force_close(None)
        else:
            Connection._finish_closing(self)

    def _lose(self, exc: BaseException | None) -> None:
        if self._loop.is_closed():
            self._drop_references()
        else:
            Connection._lose(self, exc)


class ReadPipeTransport(PipeTransport):
    """The read end."""

    __slots__ = ()

    def __init__(
        self,
        scheduler: "Scheduler",
        pipe: "Owner",
        protocol: asyncio.BaseProtocol,
        *,
        waiter: "asyncio.Future[None] | None" = None,
    ) -> None:
        self._connect(scheduler, pipe, protocol, waiter, False)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.ReadTransport

    def _on_received(self, data: bytes) -> None:
        try:
            self._protocol.data_received(data)  # type: ignore[attr-defined]
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._report(exc, "protocol.data_received() failed")  # and the transport continues, as asyncio's pipes do

    def _end_of_file(self) -> None:
        if self._loop.get_debug():
            logger.info("%r was closed by peer", self)
        self._loop._schedule(self._call_eof_received, (), self._context)
        self._force_close(None)

    def _call_eof_received(self) -> None:
        self._protocol.eof_received()  # type: ignore[attr-defined]

    def _failed(self, exc: BaseException, message: str) -> None:
        if isinstance(exc, OSError) and exc.errno != errno.EIO:  # EIO: a terminal's other side has gone
            self._report(exc, message.replace("socket", "pipe"))
        PipeTransport._failed(self, exc, message)


class WritePipeTransport(PipeTransport):
    """The write end."""

    __slots__ = ("_lost_writes",)

    def __init__(
        self,
        scheduler: "Scheduler",
        pipe: "Owner",
        protocol: asyncio.BaseProtocol,
        *,
        waiter: "asyncio.Future[None] | None" = None,
    ) -> None:
        self._lost_writes: int = 0
        self._connect(scheduler, pipe, protocol, waiter, True)

    def is_reading(self) -> bool:
        """Raise NotImplementedError, as asyncio does."""
        raise NotImplementedError

    def pause_reading(self) -> None:
        """Raise NotImplementedError, as asyncio does."""
        raise NotImplementedError

    def resume_reading(self) -> None:
        """Raise NotImplementedError, as asyncio does."""
        raise NotImplementedError

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write `data`: at once as far as the kernel takes it, the rest when it takes more.

        No effect if it is empty or the transport is closing. Raises TypeError if `data` is not bytes-like.
        """
        item = immutable(data)
        size = len(item)
        if not size:
            return
        if self._state != OPEN:
            if self._lost_writes >= LOST_WRITES_BEFORE_WARNING:
                logger.warning("pipe closed by peer or os.write(pipe, data) raised exception.")
            self._lost_writes += 1
            return
        driver = self._driver
        sent = driver.write_some(item)
        if sent < size and self._state == OPEN:
            driver.write(memoryview(item)[sent:], size - sent)
            driver.flush()
            self._maybe_pause_writing()

    def writelines(self, list_of_data: "Iterable[bytes | bytearray | memoryview]") -> None:
        """Write the buffers one after the other."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Return True: `write_eof` is possible; for a pipe it is the same as `close`."""
        return True

    def write_eof(self) -> None:
        """Close when all is written. Idempotent. Thread: as for `close`."""
        self.close()

    def _end_of_file(self) -> None:
        if self._loop.get_debug():
            logger.info("%r was closed by peer", self)
        self._force_close(BrokenPipeError() if self._driver.unsent else None)
