"""Injection: brings the agent into a process, talks to it, and withdraws what did not arrive.

The command listens on a Unix socket in a new folder that only it and the process's user can enter (`folder`), and asks
the process (`sys.remote_exec`, PEP 768) to run a script from that folder. The script has the agent as a code object:
compiling it there would hold up the loop. The agent connects. So nothing listens in the process, and when the command
ends, however it ends, the kernel closes the connection, and the agent leaves.
"""

import errno
import importlib.resources
import json
import marshal
import os
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from loopcore.errors import LoopcoreError, UsageError
from loopcore_plugins.attach.folder import SharedFolder
from loopcore_plugins.attach.process import Process
from loopcore_plugins.attach.waking import wake
from loopcore_plugins.inspect.client import GoneError, SilentError

PATIENCE: Final = 10.0
"""Seconds to wait for an answer."""
ARRIVAL: Final = 2.0
"""Seconds to wait for the script to run."""
_LOOK: Final = 0.05
_LONGEST: Final = 256 * 1024 * 1024
_SCRIPT: Final = """\
import marshal, _thread
space = {{"__name__": "loopcore_attach", "__builtins__": __builtins__}}
try:
    exec(marshal.loads({code!r}), space)
    space["start"]({path!r}, {folder!r}, {identity!r}, {uid!r})
except KeyboardInterrupt:  # it was meant for the program
    _thread.interrupt_main()
except SystemExit:  # likewise, of a handler of SIGTERM
    import signal
    _thread.interrupt_main(signal.SIGTERM)
"""


class NotReachedError(LoopcoreError):
    """The main thread does not execute Python, so the script did not run."""


class Agent:
    """A connection to the agent in process `pid`."""

    def __init__(self, process: Process, sock: socket.socket, shared: SharedFolder) -> None:
        self.process = process
        self.folder: Path = shared.path
        """A folder that the user of the process can write to. Use `take` to read from it."""
        self._shared = shared
        self._sock = sock
        self._answers = sock.makefile("rb")

    def ask(self, what: str, loop: int = 0, text: str = "", patience: float = PATIENCE) -> Any:
        """Return the answer to a question; `agent.serve` lists them.

        Raises UsageError if it is refused, GoneError if the process ends, SilentError after `patience` seconds.
        """
        try:
            self._sock.settimeout(patience)
            self._sock.sendall(f"{what} {loop} {text}\n".encode())
            line = self._answers.readline(_LONGEST)
        except TimeoutError:
            raise SilentError(
                f"process {self.process.pid} does not answer; is it stopped, or in C code that holds the GIL?"
            ) from None
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise GoneError(f"process {self.process.pid} has ended")
        reply = json.loads(line)
        if "error" in reply:
            raise UsageError(f"process {self.process.pid}: {reply['error']}")
        return reply["answer"]

    def take(self, name: str) -> bytes:
        """Return the content of a file that the process has written to `folder`. Raises OSError if others wrote it."""
        with open(self._shared.open(name, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != self.process.uid():
                raise PermissionError(f"{name} is not a file of process {self.process.pid}")
            content = file.read(_LONGEST + 1)
            if len(content) > _LONGEST:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
            return content

    def close(self) -> None:
        """End the connection; the agent leaves."""
        self._answers.close()
        self._sock.close()


@contextmanager
def attached(pid: int, command: str) -> Iterator[Agent]:
    """Yield a connection to an agent in process `pid`, which leaves at the end.

    `command` is the command to suggest in errors, as `ps`. Raises UsageError if the process cannot be attached to,
    NotReachedError if its main thread does not execute Python.
    """
    process = Process(pid)
    line = f"{command} {pid}"
    process.check(line)
    with SharedFolder(process) as folder, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        folder.bind(listener)
        listener.listen(1)
        path = folder.path / "socket"
        values = {"path": str(path), "folder": str(folder.path), "identity": folder.identity, "uid": os.geteuid()}
        folder.write("script", _SCRIPT.format(code=_code(), **values))
        folder.give_to(process.uid())
        sock = _reach(process, folder, listener, line)
        agent = Agent(process, sock, folder)
        try:
            yield agent
        finally:
            agent.close()


def _code() -> bytes:
    text = importlib.resources.files(__package__).joinpath("agent.py").read_text(encoding="utf-8")
    return marshal.dumps(compile(text, "<loopcore attach>", "exec", dont_inherit=True, optimize=2))


def _inject(pid: int, script: str) -> None:
    """`sys.remote_exec`, which type checkers for older Pythons do not know."""
    remote_exec: Any = getattr(sys, "remote_exec")  # noqa: B009
    remote_exec(pid, script)


def _reach(process: Process, folder: SharedFolder, listener: socket.socket, line: str) -> socket.socket:
    """Have the process run the script, and return the agent's connection."""
    folder.script_pending = True
    try:
        try:
            _inject(process.pid, str(folder.path / "script"))
        except (OSError, RuntimeError) as exc:
            folder.script_pending = False
            if isinstance(exc, PermissionError):
                raise process.no_rights(line) from None
            raise UsageError(f"process {process.pid} cannot be attached to: {exc}") from None
        sock = _accept(listener, process)
    except BaseException:
        if folder.script_pending:
            folder.script_pending = not _withdraw(process)
        raise
    folder.script_pending = False
    return sock


def _withdraw(process: Process) -> bool:
    """Replace the script by one that does nothing: it could run much later. Return whether it cannot run any more."""
    try:
        _inject(process.pid, os.devnull)
    except (OSError, RuntimeError):
        return not process.thread_ids()
    time.sleep(_LOOK)  # a process that had just read the script's name opens it now
    return True


def _accept(listener: socket.socket, process: Process) -> socket.socket:
    """Return the agent's connection. Wake the main thread if it waits as an idle loop does."""
    deadline = time.monotonic() + ARRIVAL
    listener.settimeout(_LOOK)
    while True:
        if process.is_waiting(process.pid):
            try:
                wake(process)
            except OSError:  # it is being traced, or has ended; a loop that runs needs no waking
                pass
        try:
            sock, _ = listener.accept()
        except TimeoutError:
            if not process.thread_ids():
                raise GoneError(f"process {process.pid} has ended") from None
            if time.monotonic() > deadline:
                raise NotReachedError(
                    f"the main thread of process {process.pid} has executed no Python for {ARRIVAL:g} s"
                ) from None
            continue
        pid, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if pid == process.pid:
            return sock
        sock.close()
