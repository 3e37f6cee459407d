"""Process: what /proc says about a process, and why it cannot be attached to.

Every refusal is one UsageError: what is wrong, and what to do.
"""

import os
import platform
import re
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

from loopcore.errors import UsageError

_VERSION: Final = re.compile(r"python3\.(\d+)")
_FIRST: Final = 14
"""The first 3.x with `sys.remote_exec`."""

_WAITS: Final = {
    "x86_64": {7, 23, 219, 232, 270, 271, 281, 426, 441},
    "aarch64": {22, 72, 73, 128, 426, 441},
}
"""System calls in which loops wait: epoll_wait and its variants, poll, ppoll, select, pselect6, io_uring_enter, and
restart_syscall, by which the kernel continues a poll."""

_RECORDING: Final = ("dump", "record")
"""Commands that the plugin `inspect` does not serve."""


class Process:
    """A process, by its number. Reads /proc when asked; raises UsageError where a user has to do something else."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.root = Path(f"/proc/{pid}")

    def check(self, command: str) -> None:
        """Raise UsageError if it cannot be attached to. `command` is the command line to suggest, as `ps 4711`."""
        try:
            self._check(command)
        except PermissionError:
            raise self.no_rights(command) from None
        except OSError:
            raise UsageError(f"process {self.pid} has ended, or belongs to the kernel") from None

    def _check(self, command: str) -> None:
        if sys.platform != "linux":
            raise UsageError(f"attaching to an unprepared process needs Linux; {_prepared(command)}")
        if not self.root.exists():
            raise UsageError(f"there is no process {self.pid}")
        state = self._status("State")[:1]
        if state in ("Z", "X"):
            raise UsageError(f"process {self.pid} has ended; its parent has not collected its exit status yet")
        minor = self._minor_version()
        if minor < _FIRST:
            raise UsageError(
                f"process {self.pid} runs Python 3.{minor}; attaching needs 3.{_FIRST} or later: {_prepared(command)}"
            )
        if minor != sys.version_info[1]:
            here = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise UsageError(
                f"process {self.pid} runs Python 3.{minor}, this command {here}, and Python attaches only to the same "
                f"version; run: {self._python()} -m loopcore {command} (if that Python has no loopcore, another "
                f"3.{minor} that has it), or {_prepared(command)}"
            )
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise UsageError(
                f"process {self.pid} runs a free-threaded Python, where no other thread may read running tasks; "
                f"{_prepared(command)}"
            )
        self._check_namespace(command)
        if self._is_disabled():
            raise UsageError(
                f"process {self.pid} was started with remote debugging disabled; restart it without "
                f"PYTHON_DISABLE_REMOTE_DEBUG and -X disable-remote-debug, or {_prepared(command)}"
            )
        if os.environ.get("PYTHON_DISABLE_REMOTE_DEBUG"):
            raise UsageError(
                f"this command cannot attach while PYTHON_DISABLE_REMOTE_DEBUG is set; run: "
                f"env -u PYTHON_DISABLE_REMOTE_DEBUG loopcore {command}"
            )
        if state in ("T", "t"):
            by = self._status("TracerPid")
            what = f"process {by} traces it; end that one" if by != "0" else f"continue it: kill -CONT {self.pid}"
            raise UsageError(f"process {self.pid} is stopped; {what}")

    def no_rights(self, command: str) -> UsageError:
        """Return the explanation of a PermissionError."""
        as_root = f"sudo {sys.executable} -m loopcore {command}"
        owner = self._status("Uid").split()[1]
        is_root = os.geteuid() == 0
        if owner != str(os.geteuid()) and not is_root:
            return UsageError(f"process {self.pid} belongs to another user ({_user(owner)}); run: {as_root}")
        tracer = self._status("TracerPid")
        if tracer != "0":
            return UsageError(f"process {self.pid} is being traced by process {tracer}; end that one first")
        scope = _read(Path("/proc/sys/kernel/yama/ptrace_scope")).strip() or "0"
        if scope == "1" and not is_root:
            return UsageError(
                f"the kernel lets only a parent trace process {self.pid} (kernel.yama.ptrace_scope is 1); "
                f"run: {as_root}"
            )
        if scope == "3":
            return UsageError(
                f"the kernel forbids to trace processes (kernel.yama.ptrace_scope is 3 until the next boot); "
                f"{_prepared(command)}"
            )
        return UsageError(
            f"the kernel does not let this command trace process {self.pid}; "
            + ("" if is_root else f"run: {as_root}; ")
            + f"start the container, if this is one, with --cap-add=SYS_PTRACE; or {_prepared(command)}"
        )

    def uid(self) -> int:
        """Return the user that the process acts as."""
        return int(self._status("Uid").split()[1])

    def command_line(self) -> str:
        """Return the program and its arguments; empty if the process has ended."""
        return _read(self.root / "cmdline").rstrip("\0").replace("\0", " ")

    def sees(self, path: Path) -> bool:
        """Return whether `path` is the same file for the process as for this one."""
        try:
            return os.path.samefile(path, f"{self.root}/root{path}")
        except OSError:
            return False

    def thread_ids(self) -> list[int]:
        """Return the kernel's ids of its threads."""
        try:
            return sorted(map(int, os.listdir(self.root / "task")))
        except OSError:
            return []

    def is_waiting(self, thread_id: int | None) -> bool:
        """Return whether a thread waits as a loop does. False if it cannot be seen."""
        return self.system_call(thread_id)[0] in _WAITS.get(platform.machine(), set())

    def system_call(self, thread_id: int | None) -> tuple[int, int]:
        """Return the number and the first argument of the system call that a thread is in; -1 outside one."""
        number, *arguments = _read(self.root / f"task/{thread_id}/syscall").split() or ["-1"]
        return (int(number), int(arguments[0], 16)) if number.isdecimal() else (-1, 0)

    def scheduling(self, thread_id: int | None) -> tuple[int, int]:
        """Return how long a thread has run, and how long it was ready but did not run, in nanoseconds."""
        ran, waited, *_ = _read(self.root / f"task/{thread_id}/schedstat").split() or ("0", "0")
        return int(ran), int(waited)

    def maps(self, part: str) -> bool:
        """Return whether a file is mapped whose path contains `part`."""
        return part in _read(self.root / "maps")

    def _minor_version(self) -> int:
        executable = os.readlink(self.root / "exe")
        mapped = (self.root / "maps").read_text(errors="replace")
        found = _VERSION.search(os.path.basename(executable)) or _VERSION.search(mapped)
        if found is None:
            raise UsageError(f"process {self.pid} ({executable}) does not run Python, as far as its files tell")
        return int(found[1])

    def _check_namespace(self, command: str) -> None:
        """Raise UsageError for a process in a container, where paths and process numbers mean something else."""
        executable = Path(os.readlink(self.root / "exe"))
        # A user may mount anything in a user namespace: its paths are not to be trusted.
        shared = all(
            os.readlink(self.root / f"ns/{each}") == os.readlink(f"/proc/self/ns/{each}") for each in ("pid", "user")
        )
        if shared and self.sees(executable):
            return
        inside = self._status("NSpid").split()[-1]
        line = f"{self._python()} -m loopcore {command.replace(str(self.pid), inside)}"
        raise UsageError(
            f"process {self.pid} runs in a container; run the command in it: {line}; "
            f"for instance: nsenter -t {self.pid} -a {line}"
        )

    def _python(self) -> str:
        """Return the program to suggest: the one that the process was started with, as of a virtual environment."""
        executable = os.readlink(self.root / "exe")
        path = next((each[5:] for each in self._variables() if each.startswith("PATH=")), None)
        started = shutil.which(_read(self.root / "cmdline").partition("\0")[0], path=path) or executable
        return started if os.path.realpath(started) == executable else executable

    def _is_disabled(self) -> bool:
        arguments = _read(self.root / "cmdline").split("\0")
        return any("disable-remote-debug" in each for each in arguments) or any(
            each.startswith("PYTHON_DISABLE_REMOTE_DEBUG=") and not each.endswith("=") for each in self._variables()
        )

    def _variables(self) -> list[str]:
        """Return the environment that the process was started with."""
        return _read(self.root / "environ").split("\0")

    def _status(self, name: str) -> str:
        for line in _read(self.root / "status").splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
        raise UsageError(f"there is no process {self.pid}")


def _prepared(command: str) -> str:
    """Return how to start a program so that nothing has to be attached to; `command` is one as `ps 4711`."""
    if command.partition(" ")[0] not in _RECORDING:
        return "start the program prepared: loopcore run --plugin inspect FILE"
    if os.name == "nt":
        return "start the program so that it records: loopcore run --plugin recorder:at_exit=yes FILE"
    return "start the program so that it records: loopcore run --plugin recorder:signal=USR2 FILE, then kill -USR2 PID"


def _read(path: Path) -> str:
    """Return the text of a file in /proc; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _user(uid: str) -> Any:
    import pwd

    try:
        return pwd.getpwuid(int(uid)).pw_name
    except KeyError:
        return uid
