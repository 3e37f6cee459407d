"""ProcessTransport: asyncio's transport of a child process and its pipes.

Calls to the protocol, in asyncio's order:

    connection_made                        first, when the pipes are connected
    pipe_data_received(fd, data)     )     as it arrives
    pipe_connection_lost(fd, exc)    )     once a pipe, after its last data
    process_exited                         once, anywhere among these: a pipe may outlive the process
    connection_lost                        last, when the process and every pipe have ended

Events during the connecting of the pipes are reported after `connection_made`; none is reported if connecting fails.

The transport owns the pipes; each is closed by its own transport. The child is reaped by `loopcore.services.children`,
once, in the loop's thread; so until this transport knows the return code, the process ID stays taken,
and a signal sent to it cannot reach another process.

`wait` ends with the process (CPython since gh-119710), not with its pipes: a grandchild may hold these for
days. But the kernel closes a process's descriptors before it reports the end, so if no other process holds them the
loop learns of both at the same time, and `connection_lost` is a few ticks away. `wait` is delayed by these ticks,
so that a program that ends after it leaves nothing open. Pipes that other processes hold longer are closed with the
loop, without a warning: asyncio.subprocess.Process offers no way to close them.

Thread: the loop's own. Exceptions raised by the protocol go to the loop's exception handler.
"""

import asyncio
import errno
import signal as signals
import warnings
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

from loopcore.log import logger
from loopcore.services.children import Children, Process
from loopcore.transports.clients import resolve
from loopcore.transports.flow import fire_transport_hook

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler

TICKS_BEFORE_WAKING: Final = 6
"""It takes four ticks from the end of file of a pipe to the process's `connection_lost`, and a poll before that."""

KILL: Final = getattr(signals, "SIGKILL", signals.SIGTERM)
"""The signal that ends a process unconditionally. On Windows SIGTERM stands for TerminateProcess, the only way."""

PIPE_NAMES: Final = ("stdin", "stdout", "stderr")

ConnectPipe: TypeAlias = "Callable[[Callable[[], asyncio.BaseProtocol], IO[bytes]], Awaitable[tuple[Any, Any]]]"
"""The loop's `connect_read_pipe` or `connect_write_pipe`: takes a factory and a file, makes transport and protocol."""


class PipeProtocol(asyncio.Protocol):
    """The protocol of one of the pipes: passes events on to the process's transport."""

    def __init__(self, process: "ProcessTransport", fd: int) -> None:
        self._process = process
        self._fd = fd

    def __repr__(self) -> str:
        return f"<{type(self).__name__} fd={self._fd}>"

    def data_received(self, data: bytes) -> None:
        self._process._pipe_received(self._fd, data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._process._pipe_lost(self._fd, exc)

    def pause_writing(self) -> None:
        self._process._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._process._protocol.resume_writing()


class ProcessTransport(asyncio.SubprocessTransport):
    """A running child, and the pipes to it."""

    _extra: dict[str, Any]

    def __init__(
        self,
        scheduler: "Scheduler",
        children: Children,
        process: Process,
        protocol: asyncio.SubprocessProtocol,
    ) -> None:
        """Watch `process`; `connect_pipes` comes next. If this raises, the process is still the caller's."""
        self._closed = True  # until there is something to close
        self._extra = {"subprocess": process}
        self._loop = scheduler
        self._context = copy_context()
        self._protocol: Any = protocol
        self._proc: Process | None = process
        self._pid = process.pid
        self._returncode: int | None = None
        self._exit_waiters: dict[asyncio.Future[int], None] = {}
        self._pipes: dict[int, asyncio.BaseTransport] = {}
        self._files: dict[int, IO[bytes]] = {}
        """The pipes that have no transport yet."""
        if process.stdin is not None:
            self._files[0] = process.stdin
        if process.stdout is not None:
            self._files[1] = process.stdout
        if process.stderr is not None:
            self._files[2] = process.stderr
        self._alive = set(self._files)
        """The child's descriptors whose pipes have not ended."""
        # An object that cannot be a protocol is refused here, before anything is done.
        self._connection_made = protocol.connection_made
        self._deferred_calls: list[tuple[Callable[..., object], tuple[Any, ...]]] | None = []
        """Further calls to the protocol, made once the pipes are connected; None from then on."""
        self._survivors = children.survivors
        self._survives = False  # whether it is among them
        self._child = children.watch(process, self._process_exited)
        self._closed = False

    @property
    def has_pipes(self) -> bool:
        """Whether there are pipes to be connected."""
        return bool(self._files)

    async def connect_pipes(self, connect_read_pipe: ConnectPipe, connect_write_pipe: ConnectPipe) -> None:
        """Give each pipe a transport; `open` comes next.

        If this raises, the caller closes the transport and waits for the end of the process.
        """
        for fd, file in sorted(self._files.items()):
            connect = connect_read_pipe if fd else connect_write_pipe
            self._pipes[fd], _ = await connect(partial(PipeProtocol, self, fd), file)
            del self._files[fd]

    def open(self) -> "asyncio.Future[None]":
        """Report to the protocol from now on; return a future that is resolved after the first and the deferred calls.

        If awaiting it raises, the caller closes the transport and waits for the end of the process.
        """
        deferred, self._deferred_calls = self._deferred_calls or (), None
        self._call(self._open)
        for callback, args in deferred:
            self._call(callback, *args)
        opened: asyncio.Future[None] = self._loop.create_future()
        self._call(resolve, opened)
        return opened

    def __repr__(self) -> str:
        info = [type(self).__name__]
        if self._closed:
            info.append("closed")
        info.append(f"pid={self._pid}")
        info.append("running" if self._returncode is None else f"returncode={self._returncode}")
        info += [f"{name}={self._pipes[fd]}" for fd, name in enumerate(PIPE_NAMES) if fd in self._pipes]
        return f"<{' '.join(info)}>"

    def __del__(self, _warn: Callable[..., object] = warnings.warn) -> None:
        if not self._closed:
            _warn(f"unclosed transport {self!r}", ResourceWarning, source=self)
            self.close()

    def get_protocol(self) -> Any:
        """Return the current protocol; None after `connection_lost`."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Call `protocol` from now on."""
        self._protocol = protocol

    def get_pid(self) -> int:
        """Return the process ID."""
        return self._pid

    def get_returncode(self) -> int | None:
        """Return the exit status, or minus the signal that ended the process; None until that is known."""
        return self._returncode

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        """Return the transport of the pipe that is the child's descriptor `fd`: 0, 1 or 2; None without a pipe."""
        return self._pipes.get(fd)

    def is_closing(self) -> bool:
        """Return whether `close` was called."""
        return self._closed

    def send_signal(self, signal: int) -> None:
        """Send a signal. No effect if the process has just ended; ProcessLookupError after `connection_lost`."""
        if self._proc is None:
            raise ProcessLookupError(errno.ESRCH, f"process {self._pid} has ended")
        self._child.send_signal(signal)

    def terminate(self) -> None:
        """Ask the process to end (SIGTERM). Raises as `send_signal`."""
        self.send_signal(signals.SIGTERM)

    def kill(self) -> None:
        """End the process (SIGKILL; on Windows both are TerminateProcess). Raises as `send_signal`."""
        self.send_signal(KILL)

    def close(self) -> None:
        """Close the pipes and kill the process if it is running. Idempotent.

        Thread: any, as for finalizers. If the loop runs in another thread, the loop's thread closes in its next tick.
        """
        if self._closed:
            return
        self._closed = True
        if self._loop._is_elsewhere():
            self._loop.call_soon_threadsafe(self._finish_closing, context=self._context)
        else:
            self._finish_closing()

    def _finish_closing(self) -> None:
        self._leave_survivors()
        for pipe in self._pipes.values():
            pipe.close()
        for file in self._files.values():
            file.close()
        if self._proc is None or self._returncode is not None or not self._child.is_running():
            return
        if self._loop.get_debug():
            logger.warning("Close running child process: kill %r", self)
        try:
            self._proc.kill()
        except (ProcessLookupError, PermissionError):
            pass  # just ended, or running as another user (setuid)

    async def _wait(self) -> int:
        """Wait for the end of the process; return its exit code. asyncio.subprocess.Process calls it."""
        if self._returncode is not None:
            return self._returncode
        waiter: asyncio.Future[int] = self._loop.create_future()
        self._exit_waiters[waiter] = None
        try:
            return await waiter
        finally:
            self._exit_waiters.pop(waiter, None)  # cancelled, perhaps by a timeout: the program will wait again

    def _call(self, callback: Callable[..., object], *args: Any) -> None:
        self._loop.call_soon(callback, *args, context=self._context)

    def _call_or_defer(self, callback: Callable[..., object], *args: Any) -> None:
        if self._deferred_calls is None:
            self._loop.call_soon(callback, *args, context=self._context)
        else:
            self._deferred_calls.append((callback, args))

    def _pipe_received(self, fd: int, data: bytes) -> None:
        self._call_or_defer(self._protocol.pipe_data_received, fd, data)

    def _pipe_lost(self, fd: int, exc: BaseException | None) -> None:
        self._call_or_defer(self._protocol.pipe_connection_lost, fd, exc)
        self._alive.discard(fd)
        if self._returncode is not None and not self._alive:
            self._call_or_defer(self._call_connection_lost)

    def _process_exited(self, code: int) -> None:
        if self._loop.get_debug():
            logger.info("%r exited with return code %r", self, code)
        self._returncode = code
        self._call_or_defer(self._protocol.process_exited)
        if not self._alive:
            self._call_or_defer(self._call_connection_lost)
            if self._deferred_calls is None:
                return  # `connection_lost` comes at once, and wakes the waiters
        elif not self._closed:
            self._survives = True
            self._survivors.add(self)
        self._call(self._wake_after_ticks, TICKS_BEFORE_WAKING)

    def _call_connection_lost(self) -> None:
        try:
            if self._loop._watching_transports:
                fire_transport_hook(self, "closed", None)
        finally:  # also if a hook exits
            try:
                self._protocol.connection_lost(None)
            finally:
                self._leave_survivors()
                self._wake_waiters()
                self._proc = None
                self._protocol = None

    def _leave_survivors(self) -> None:
        if self._survives:
            self._survives = False
            self._survivors.discard(self)

    def _open(self) -> None:
        try:
            self._connection_made(self)
        finally:
            del self._connection_made
            if self._loop._watching_transports:
                fire_transport_hook(self, "opened")

    def _wake_after_ticks(self, ticks: int) -> None:
        """Wake the waiters after `connection_lost`, or after this many ticks."""
        if ticks and self._proc is not None:
            self._call(self._wake_after_ticks, ticks - 1)
        else:
            self._wake_waiters()

    def _wake_waiters(self) -> None:
        waiters, self._exit_waiters = self._exit_waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(self._returncode)  # type: ignore[arg-type]
