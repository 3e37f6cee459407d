"""Subprocesses: checking what is asked for, and starting it with the standard library's `subprocess.Popen`.

Everything Popen can do with a process (preexec_fn, pass_fds, start_new_session, cwd, env, user ...) is handed on to it.
What it can do with pipes beyond bytes (text, buffers) is refused: the pipes are the transport's.

Popen blocks until the child has called execve(2) or failed to: some milliseconds, as in asyncio.
"""

import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from loopcore.endpoints.pipes import NO_PIPES
from loopcore.log import logger

STDIN_IS_A_SOCKET: Final = sys.platform.startswith("aix")
"""Whether the child reads from a socket: AIX does not tell the writer of a pipe that its reader has left."""


class MakeProcess(Protocol):
    """Makes the transport of a running process, and hands this and its pipes over to it unless it raises."""

    def __call__(self, process: "subprocess.Popen[bytes]", protocol: Any) -> Any: ...


class PipeConnector(Protocol):
    """Connects the pipes to the process."""

    async def connect_read_pipe(self, protocol_factory: Any, pipe: Any) -> Any: ...

    async def connect_write_pipe(self, protocol_factory: Any, pipe: Any) -> Any: ...


class ProcessEndpoints:
    """`subprocess_exec` and `subprocess_shell`. Thread: the loop's own. Errors are asyncio's and Popen's."""

    def __init__(
        self, *, pipes: PipeConnector, make_transport: MakeProcess, get_debug: Callable[[], bool], has_pipes: bool
    ) -> None:
        self._pipes = pipes
        self._make_transport = make_transport
        self._get_debug = get_debug
        self._has_pipes = has_pipes

    def subprocess_exec(
        self, protocol_factory: Callable[[], Any], program: Any, *args: Any, shell: bool = False, **options: Any
    ) -> Coroutine[Any, Any, tuple[Any, Any]]:
        """Run `program` with `args`; return the transport and the protocol."""
        _refuse_text(options)
        if shell:
            raise ValueError("shell must be False")
        return self._start(protocol_factory, (program, *args), False, options)

    def subprocess_shell(
        self, protocol_factory: Callable[[], Any], cmd: Any, *, shell: bool = True, **options: Any
    ) -> Coroutine[Any, Any, tuple[Any, Any]]:
        """Run `cmd` by the shell; return the transport and the protocol."""
        if not isinstance(cmd, (bytes, str)):
            raise ValueError("cmd must be a string")
        _refuse_text(options)
        if not shell:
            raise ValueError("shell must be True")
        return self._start(protocol_factory, cmd, True, options)

    async def _start(
        self, protocol_factory: Callable[[], Any], args: Any, shell: bool, options: dict[str, Any]
    ) -> tuple[Any, Any]:
        if not self._has_pipes and subprocess.PIPE in (options.get(name) for name in ("stdin", "stdout", "stderr")):
            raise NotImplementedError(NO_PIPES)
        protocol = protocol_factory()
        process = spawn(args, shell=shell, **options)
        try:
            transport = self._make_transport(process, protocol)
        except BaseException:
            _give_up(process)
            raise
        if self._get_debug():
            logger.debug("process %r created: pid %s", args if shell else args[0], process.pid)
        try:
            await transport.connect_pipes(self._pipes.connect_read_pipe, self._pipes.connect_write_pipe)
        except BaseException:
            transport.close()
            await transport._wait()
            raise
        return transport, protocol


def _refuse_text(options: dict[str, Any]) -> None:
    """Raise ValueError, with asyncio's texts, for what would put something else than bytes into the pipes."""
    if options.pop("universal_newlines", False):
        raise ValueError("universal_newlines must be False")
    if options.pop("bufsize", 0) != 0:
        raise ValueError("bufsize must be 0")
    if options.pop("text", None):
        raise ValueError("text must be False")
    for name in ("encoding", "errors"):
        if options.pop(name, None) is not None:
            raise ValueError(f"{name} must be None")


def _popen_class() -> Any:
    """Return `subprocess.Popen`; on Windows asyncio's, whose pipes are made for overlapped work."""
    if sys.platform == "win32":
        from asyncio import windows_utils

        return windows_utils.Popen
    return subprocess.Popen


def spawn(
    args: Any,
    *,
    shell: bool,
    stdin: Any = subprocess.PIPE,
    stdout: Any = subprocess.PIPE,
    stderr: Any = subprocess.PIPE,
    **options: Any,
) -> "subprocess.Popen[bytes]":
    """Start the process. Its pipes are not buffered."""
    ours: socket.socket | None = None
    if stdin == subprocess.PIPE and STDIN_IS_A_SOCKET:
        stdin, ours = socket.socketpair()
    try:
        process: subprocess.Popen[bytes] = _popen_class()(
            args, shell=shell, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=0, **options
        )
        if ours is not None:
            process.stdin = open(ours.detach(), "wb", buffering=0)  # noqa: SIM115 - the transport closes it
        return process
    finally:
        if ours is not None:
            stdin.close()
            ours.close()


def _give_up(process: "subprocess.Popen[bytes]") -> None:
    """End a process that nobody will look after."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.kill()
    process.wait()  # SIGKILL takes effect at once, but for a process in an uninterruptible system call
