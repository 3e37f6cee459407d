"""ReadPipeTransport and WritePipeTransport: asyncio's transports for the two ends of pipes.

Each owns its file object from its construction on, and closes it once, after `connection_lost`. If construction
is refused (ValueError), the file stays the caller's. The states are those of `loopcore.transports.lifecycle`, in this
table:

                 end of file, reader gone, error, abort      close, write_eof     all is written
    OPEN         LOST                                        CLOSING or LOST            -
    CLOSING      LOST                                             -                   LOST
    LOST         CLOSED, when `connection_lost` ran

A read end has no CLOSING: there is nothing to wait for.

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
import warnings
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final

from loopcore.log import logger
from loopcore.transports.buffers import immutable
from loopcore.transports.driver import Sink
from loopcore.transports.flow import FlowControl, fire_dropped_hook, fire_transport_hook
from loopcore.transports.lifecycle import CLOSED, CLOSING, LOST, OPEN, STATES, resolve
from loopcore.transports.ports import make_pipe_reader, make_pipe_writer
from loopcore.transports.stream import LOST_WRITES_BEFORE_WARNING

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler

KINDS: Final = (
    (stat.S_ISREG, "a regular file"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISBLK, "a block device"),
)


def check_kind(pipe: Any) -> int:
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


def _check_handle(pipe: Any) -> None:
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
        kind = next((name for is_kind, name in KINDS if is_kind(mode)), "none")
        raise ValueError(
            f"Pipe transport is for pipes that were made for overlapped work, and {pipe!r} is {kind}; make one with "
            "asyncio.windows_utils.pipe(), and read and write a file in a thread, with asyncio.to_thread()"
        )


class PipeEnd:
    """The part that both ends share other than reading and writing. Mixed into a Sink."""

    _loop: Any
    _driver: Any
    _protocol: Any
    _context: Any
    _extra: dict[str, Any]
    _state: int

    def _announce(self, waiter: "asyncio.Future[None] | None") -> None:
        """Schedule the protocol's first calls, in asyncio's order."""
        loop, context = self._loop, self._context
        loop.call_soon(self._protocol.connection_made, self, context=context)
        loop.call_soon(self._open, context=context)
        if waiter is not None:
            loop.call_soon(resolve, waiter, context=context)

    def _open(self) -> None:
        if self._loop.watching_transports:
            fire_transport_hook(self, "opened")
        self._start_reading()

    def __repr__(self) -> str:
        info = [type(self).__name__, STATES[self._state], f"fd={self._driver.fd}"]
        if self._state != CLOSED:
            info.append(self._driver.describe())
        return f"<{' '.join(info)}>"

    def __del__(self) -> None:
        driver = getattr(self, "_driver", None)  # absent if the constructor failed
        if driver is not None and driver.sock is not None:
            warnings.warn(f"unclosed transport {self!r}", ResourceWarning, stacklevel=1, source=self)
            driver.abandon()
            fire_dropped_hook(self)

    @property
    def _pipe(self) -> Any:
        """The file; None when it is closed. asyncio's name, which programs look up and CPython's tests set."""
        return self._driver.sock

    @_pipe.setter
    def _pipe(self, pipe: Any) -> None:
        self._driver.sock = pipe

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return "pipe", the file object; "loopcore.bytes" as for sockets; or whatever else is known under `name`."""
        if name == "loopcore.bytes":
            return (self._driver.received, self._driver.sent)
        return self._extra.get(name, default)

    def get_protocol(self) -> Any:
        """Return the current protocol; None once the connection is lost."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Call `protocol` from now on."""
        self._protocol = protocol

    def is_closing(self) -> bool:
        """Return whether the transport is closing or closed."""
        return self._state != OPEN

    @property
    def _closing(self) -> bool:
        """`is_closing`, under the name that libraries look up in asyncio's transports."""
        return self._state != OPEN

    def _start_reading(self) -> None:
        if self._state != OPEN:
            return
        try:
            self._driver.start_reading()
        except (OSError, ValueError) as exc:  # the backend cannot take the descriptor; its message names one that can
            self._failed(exc, "Fatal error on pipe transport")

    def _failed(self, exc: BaseException, message: str) -> None:
        if not self._is_expected(exc):
            self._complain(exc, message)
        elif self._loop.get_debug():
            logger.debug("%r: %s", self, message, exc_info=exc)
        self._end(exc)

    def _is_expected(self, exc: BaseException) -> bool:
        """Return whether `connection_lost` reports this error well enough. EIO: a terminal's other side has gone."""
        return isinstance(exc, OSError) and exc.errno == errno.EIO

    def _complain(self, exc: BaseException, message: str) -> None:
        self._loop.call_exception_handler(
            {"message": message, "exception": exc, "transport": self, "protocol": self._protocol}
        )

    def _in_owner(self, call: Callable[..., None], *args: Any) -> None:
        """Call it in the loop's thread: now, or in the next tick if called in another, where a finalizer may run."""
        if self._loop._is_elsewhere():
            self._state = CLOSING
            self._loop.call_soon_threadsafe(call, *args, context=self._context)
        else:
            call(*args)

    def _end(self, exc: BaseException | None) -> None:
        """Stop reading and writing; schedule `connection_lost`, once."""
        if self._state >= LOST:
            return
        self._state = LOST
        if self._loop.is_closed():
            self._state = CLOSED
            self._driver.abandon()
            return
        self._driver.stop_reading()
        self._driver.discard()
        self._loop.call_soon(self._call_connection_lost, exc, context=self._context)

    def _call_connection_lost(self, exc: BaseException | None) -> None:
        if self._loop.watching_transports:
            fire_transport_hook(self, "closed", exc)
        try:
            self._protocol.connection_lost(exc)
        finally:
            self._state = CLOSED
            self._protocol = None
            self._driver.release()  # raises if the descriptor was closed elsewhere


class ReadPipeTransport(PipeEnd, Sink):
    """The read end."""

    def __init__(
        self,
        scheduler: "Scheduler",
        pipe: Any,
        protocol: asyncio.BaseProtocol,
        *,
        waiter: "asyncio.Future[None] | None" = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        mode = check_kind(pipe)
        self._loop = scheduler
        self._context: Context = copy_context()
        self._extra = {**(extra or {}), "pipe": pipe}
        self._protocol = protocol
        self._state = OPEN
        self._paused = False
        self._driver = make_pipe_reader(scheduler, self, pipe, self._context, mode)
        self._announce(waiter)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.ReadTransport

    def is_reading(self) -> bool:
        """Return whether incoming bytes reach the protocol."""
        return self._state == OPEN and not self._paused

    def pause_reading(self) -> None:
        """Leave incoming bytes to the kernel, which holds up the writer. No effect when closing or paused."""
        if self._state == OPEN and not self._paused:
            self._paused = True
            self._driver.stop_reading()
            if self._loop.watching_transports:
                fire_transport_hook(self, "paused", "reading")
            if self._loop.get_debug():
                logger.debug("%r pauses reading", self)

    def resume_reading(self) -> None:
        """Undo `pause_reading`. No effect when closing or not paused."""
        if self._state == OPEN and self._paused:
            self._paused = False
            self._driver.start_reading()
            if self._loop.watching_transports:
                fire_transport_hook(self, "resumed", "reading")
            if self._loop.get_debug():
                logger.debug("%r resumes reading", self)

    def close(self) -> None:
        """Stop reading and close. Idempotent. Thread: any; if the loop runs in another, it closes there."""
        if self._state < LOST:
            self._in_owner(self._end, None)

    def _start_reading(self) -> None:
        if not self._paused:
            PipeEnd._start_reading(self)

    def _received(self, data: bytes) -> None:
        try:
            self._protocol.data_received(data)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._complain(exc, "protocol.data_received() failed")  # and the transport continues, as asyncio's pipes do

    def _end_of_file(self) -> None:
        if self._loop.get_debug():
            logger.info("%r was closed by peer", self)
        self._loop.call_soon(self._tell_end, context=self._context)
        self._end(None)

    def _tell_end(self) -> None:
        self._protocol.eof_received()


class WritePipeTransport(PipeEnd, FlowControl):
    """The write end."""

    def __init__(
        self,
        scheduler: "Scheduler",
        pipe: Any,
        protocol: asyncio.BaseProtocol,
        *,
        waiter: "asyncio.Future[None] | None" = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        mode = check_kind(pipe)
        FlowControl.__init__(self, scheduler)
        self._extra = {**(extra or {}), "pipe": pipe}
        self._protocol = protocol
        self._state = OPEN
        self._lost_writes = 0
        # A device has no reader to lose, and its readability means something else.
        self._has_reader = not stat.S_ISCHR(mode)
        self._driver = make_pipe_writer(scheduler, self, pipe, self._context, mode)
        self._announce(waiter)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return asyncio.Transport

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
        sent = self._driver.write_some(item)
        if sent == size or self._state != OPEN:
            return
        try:
            self._driver.write(memoryview(item)[sent:], size - sent)
        except (OSError, ValueError) as exc:  # the backend cannot take the descriptor; its message names one that can
            self._failed(exc, "Fatal error on pipe transport")
            return
        self._maybe_pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        """Write the buffers one after the other."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Return True: `write_eof` is possible; for a pipe it is the same as `close`."""
        return True

    def write_eof(self) -> None:
        """Close when all is written. Idempotent. Thread: any; if the loop runs in another, it closes there."""
        if self._state == OPEN:
            self._state = CLOSING
            self._in_owner(self._end_if_written)

    def _end_if_written(self) -> None:
        if not self._driver.unsent or self._loop.is_closed():
            self._end(None)

    def close(self) -> None:
        """Close when all is written. Idempotent. Thread: as for `write_eof`."""
        self.write_eof()

    def abort(self) -> None:
        """Close at once; bytes not yet written are dropped. Thread: as for `write_eof`."""
        if self._state < LOST:
            self._in_owner(self._end, None)

    def _start_reading(self) -> None:
        if self._has_reader:
            PipeEnd._start_reading(self)

    def _end_of_file(self) -> None:
        if self._loop.get_debug():
            logger.info("%r was closed by peer", self)
        self._end(BrokenPipeError() if self._driver.unsent else None)

    def _is_expected(self, exc: BaseException) -> bool:
        return isinstance(exc, OSError)

    def _run(self) -> None:
        self._driver.run_flush()

    def _written(self) -> None:
        driver = self._driver
        if self._protocol_paused and driver.unsent <= self._low_water:
            self._context.run(self._resume_protocol)
        if self._state == CLOSING and not driver.unsent:
            self._end(None)
