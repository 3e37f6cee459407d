"""Child processes: a clean environment, a deadline, one line at a time.

Errors of a child become MeasurementError with the last line it wrote to stderr, so that a failed cell of the table
shows the reason.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from loopcore_bench.loops import LoopSpec

_START = Path(__file__).resolve().parent / "start.py"

_DROPPED = ("PYTHONASYNCIODEBUG", "PYTHONDEVMODE", "PYTHONTRACEMALLOC", "PYTHONMALLOC", "PYTHONPROFILEIMPORTTIME")


class MeasurementError(Exception):
    """A child failed, or did not answer in time."""


class NotInstalledError(Exception):
    """The loop, or the application on it, is not available here; the text is the reason."""


def child_environment(python: str) -> dict[str, str]:
    """This environment without debugging switches, and with a fixed hash seed.

    PYTHONPATH is for this interpreter: another one has different modules.
    """
    dropped = _DROPPED if python == sys.executable else (*_DROPPED, "PYTHONPATH", "PYTHONHOME")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "PYTHONHASHSEED": "0"}


def module_command(spec: LoopSpec, module: str, folder: str | None = None) -> list[str]:
    """The command line that runs a module, as `package_command`, on the interpreter of the loop."""
    backend = [] if spec.backend is None else ["--backend", spec.backend]
    return [*package_command(module, spec.python, folder), "--loop", spec.name, *backend]


def package_command(module: str, python: str = sys.executable, folder: str | None = None) -> list[str]:
    """The command line that runs a module, given by its full name: of this package, or of `folder`."""
    return [python, str(_START), *(["--folder", folder] if folder else []), module]


def pin_to(cpu: int | None) -> Callable[[], None] | None:
    """A function for the child to call before it executes: it confines the process to one CPU."""
    if cpu is None or sys.platform != "linux":
        return None
    return lambda: os.sched_setaffinity(0, {cpu})


class Child:
    """A running child whose stdin and stdout are lines. Killed when the block is left.

    `under` is a program that runs the command, with its options.
    """

    def __init__(self, command: list[str], *, cpu: int | None = None, under: Sequence[str] = ()) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed in __exit__
        self._pending = b""
        try:
            self._process = subprocess.Popen(
                [*under, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=child_environment(command[0]),
                preexec_fn=pin_to(cpu),  # noqa: PLW1509  this process has one thread
                bufsize=0,
            )
        except OSError:
            self._errors.close()
            raise

    def __enter__(self) -> Child:
        return self

    @property
    def pid(self) -> int:
        """The process ID of the child."""
        return self._process.pid

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._errors.close()

    def tell(self, line: str) -> None:
        """Send one line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            raise MeasurementError(f"the child is gone: {self.last_words()}") from None

    def read_line(self, timeout: float) -> str:
        """The next line; raises MeasurementError when it does not arrive within `timeout` seconds."""
        stdout = self._process.stdout
        assert stdout is not None
        if sys.platform == "win32":
            return self._read_blocking(stdout, timeout)
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise MeasurementError(f"no answer within {timeout:g} s; {self.last_words()}")
                chunk = stdout.read(65536)
                if not chunk:
                    status = self._process.wait()
                    raise MeasurementError(f"ended with status {status}; {self.last_words()}")
                self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode()

    def _read_blocking(self, stdout: IO[bytes], timeout: float) -> str:
        """The next line where select(2) does not support pipes: a child that is late is killed."""
        timer = threading.Timer(timeout, self._process.kill)
        timer.start()
        try:
            line = stdout.readline()
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            status = self._process.wait()
            raise MeasurementError(f"ended with status {status}, or gave no answer; {self.last_words()}")
        return line.decode().rstrip()

    def read_json(self, timeout: float) -> dict[str, Any]:
        """The next line as an object. Raises NotInstalledError when it is a reason not to measure."""
        answer: dict[str, Any] = json.loads(self.read_line(timeout))
        if "reason" in answer:
            raise NotInstalledError(str(answer["reason"]))
        return answer

    def last_words(self) -> str:
        """The last line on stderr."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing on stderr"


def ask(command: list[str], timeout: float, *, cpu: int | None = None) -> dict[str, Any]:
    """Run a child that prints one object and ends."""
    with Child(command, cpu=cpu) as child:
        return child.read_json(timeout)


def describe(spec: LoopSpec, timeout: float = 60.0) -> dict[str, Any]:
    """Facts about a loop, from its own interpreter. Raises NotInstalledError with the reason."""
    try:
        return ask([*module_command(spec, "loopcore_bench.child"), "describe"], timeout)
    except FileNotFoundError:
        raise NotInstalledError(f"no interpreter at {spec.python}") from None
    except OSError as error:
        raise NotInstalledError(f"{spec.python} is no interpreter: it cannot be executed ({error.strerror})") from None
    except json.JSONDecodeError as error:
        raise NotInstalledError(f"{spec.python} is no interpreter: it answers {error.doc!r}") from None
