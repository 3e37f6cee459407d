"""Subprocesses: checking the arguments, and starting the process with the standard library's `subprocess.Popen`.

All process options of Popen (preexec_fn, pass_fds, start_new_session, cwd, env, user ...) are passed on to it.
Its options for text and buffering are refused: the pipes belong to the transport, and carry bytes.

Popen blocks until the child has called execve(2) or failed to: a few milliseconds, as in asyncio.
"""

import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from loopcore.endpoints.needs import EndpointHost
from loopcore.endpoints.pipes import NO_PIPES
from loopcore.log import logger

if TYPE_CHECKING:
    import asyncio

    from _typeshed import HasFileno, StrOrBytesPath

    from loopcore.transports.process import ProcessTransport

Command: TypeAlias = "bytes | str | Sequence[StrOrBytesPath]"
"""The first argument of Popen."""
Stream: TypeAlias = "int | HasFileno | None"
"""What Popen takes for a stream of the process: PIPE, DEVNULL, STDOUT, a descriptor or a file."""
Pipes: TypeAlias = tuple[Stream, Stream, Stream]
"""The arguments `stdin`, `stdout` and `stderr`."""
Text: TypeAlias = tuple[int, bool, bool | None, str | None, str | None]
"""The arguments `bufsize`, `universal_newlines`, `text`, `encoding` and `errors`."""
BYTES: Final[Text] = (0, False, None, None, None)
"""The only accepted values, apart from equivalent ones such as `text=False`."""

STDIN_IS_A_SOCKET: Final = sys.platform.startswith("aix")
"""Whether the child reads from a socket: AIX does not notify the writer of a pipe when the reader has closed it."""


class MakeProcess(Protocol):
    """Creates the transport of a running process, which owns the process and its pipes unless this raises."""

    def __call__(
        self, process: "subprocess.Popen[bytes]", protocol: "asyncio.SubprocessProtocol"
    ) -> "ProcessTransport": ...


class ProcessEndpoints:
    """`subprocess_exec` and `subprocess_shell`. Thread: the loop's own. Errors are asyncio's and Popen's."""

    def __init__(self, host: EndpointHost, make_transport: MakeProcess, *, has_pipes: bool) -> None:
        self._host = host
        self._make_transport = make_transport
        self._has_pipes = has_pipes

    def subprocess_exec(
        self,
        protocol_factory: Callable[[], Any],
        args: "tuple[StrOrBytesPath, ...]",
        pipes: Pipes,
        shell: bool,
        text: Text,
        options: dict[str, Any],
    ) -> "Coroutine[Any, Any, tuple[ProcessTransport, Any]]":
        """Run the program `args[0]` with the arguments `args[1:]`; return the transport and the protocol."""
        if text != BYTES:
            _refuse_text(*text)
        if shell:
            raise ValueError("shell must be False")
        return self._start(protocol_factory, args, False, pipes, options)

    def subprocess_shell(
        self,
        protocol_factory: Callable[[], Any],
        cmd: object,
        pipes: Pipes,
        shell: bool,
        text: Text,
        options: dict[str, Any],
    ) -> "Coroutine[Any, Any, tuple[ProcessTransport, Any]]":
        """Run `cmd` in the shell; return the transport and the protocol."""
        if not isinstance(cmd, (bytes, str)):
            raise ValueError("cmd must be a string")
        if text != BYTES:
            _refuse_text(*text)
        if not shell:
            raise ValueError("shell must be True")
        return self._start(protocol_factory, cmd, True, pipes, options)

    async def _start(
        self, protocol_factory: Callable[[], Any], args: Command, shell: bool, pipes: Pipes, options: dict[str, Any]
    ) -> "tuple[ProcessTransport, Any]":
        if not self._has_pipes and subprocess.PIPE in pipes:
            raise NotImplementedError(NO_PIPES)
        protocol = protocol_factory()
        process = spawn(args, shell, pipes, options)
        try:
            transport = self._make_transport(process, protocol)
        except BaseException:
            _give_up(process)
            raise
        if self._host.get_debug():
            logger.debug("process %r created: pid %s", args if shell else args[0], process.pid)
        try:
            if transport.has_pipes:
                await transport.connect_pipes(self._host.connect_read_pipe, self._host.connect_write_pipe)
            await transport.open()
        except BaseException:
            transport.close()
            await transport._wait()
            raise
        return transport, protocol


def _refuse_text(
    bufsize: int, universal_newlines: bool, text: bool | None, encoding: str | None, errors: str | None
) -> None:
    """Raise ValueError, with asyncio's texts, for options that would make the pipes carry anything but bytes."""
    if universal_newlines:
        raise ValueError("universal_newlines must be False")
    if bufsize != 0:
        raise ValueError("bufsize must be 0")
    if text:
        raise ValueError("text must be False")
    if encoding is not None:
        raise ValueError("encoding must be None")
    if errors is not None:
        raise ValueError("errors must be None")


def _popen_class() -> Any:
    """Return `subprocess.Popen`; on Windows asyncio's subclass, whose pipes support overlapped I/O."""
    if sys.platform == "win32":
        from asyncio import windows_utils

        return windows_utils.Popen
    return subprocess.Popen


def spawn(args: Command, shell: bool, pipes: Pipes, options: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """Start the process. Its pipes are not buffered."""
    stdin, stdout, stderr = pipes
    if STDIN_IS_A_SOCKET and stdin == subprocess.PIPE:
        return _spawn_with_a_socket(args, shell, pipes, options)
    process: subprocess.Popen[bytes] = _popen_class()(
        args, shell=shell, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=0, **options
    )
    return process


def _spawn_with_a_socket(
    args: Command, shell: bool, pipes: Pipes, options: dict[str, Any]
) -> "subprocess.Popen[bytes]":
    """Like `spawn`, but the child reads from a socket."""
    stdin, ours = socket.socketpair()
    try:
        process = spawn(args, shell, (stdin, *pipes[1:]), options)
        process.stdin = open(ours.detach(), "wb", buffering=0)  # noqa: SIM115 - the transport closes it
        return process
    finally:
        stdin.close()
        ours.close()


def _give_up(process: "subprocess.Popen[bytes]") -> None:
    """Kill and reap a process that has no transport."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.kill()
    process.wait()  # SIGKILL takes effect at once, except in an uninterruptible system call
