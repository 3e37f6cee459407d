"""System calls per request: strace(1) counts them in the server while it is under load.

Each call costs a traced process some ten microseconds more, so that more requests are waiting whenever it looks: with
many connections there are fewer waits per request than at full speed. With one connection the count is exact.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from loopcore_bench.process import MeasurementError, NotInstalledError

_ATTACH_TIMEOUT = 20.0
_LOOK_AGAIN = 0.01


@dataclass(frozen=True, slots=True)
class Syscalls:
    """What a row needed on a loop: calls by name over all requests, or the reason why nothing was counted."""

    row: str
    loop: str
    requests: int = 0
    calls: dict[str, int] | None = None
    error: str | None = None
    skipped: str | None = None

    def per_request(self) -> dict[str, float]:
        """Calls per request by name, the most frequent first."""
        ranked = sorted((self.calls or {}).items(), key=lambda item: (-item[1], item[0]))
        return {name: count / self.requests for name, count in ranked}

    @property
    def total(self) -> float:
        """All calls per request."""
        return sum((self.calls or {}).values()) / self.requests if self.requests else 0.0


class Strace:
    """Traces a process and its threads while the block runs; `calls` holds the counts afterwards."""

    def __init__(self, pid: int, scratch: Path) -> None:
        self._pid = pid
        self._output = scratch / "strace"
        self._errors = scratch / "strace-errors"
        self.calls: dict[str, int] = {}

    def __enter__(self) -> Strace:
        program = shutil.which("strace")
        if program is None:
            raise NotInstalledError("there is no strace; install the system's package of that name")
        command = [program, "-c", "-f", "-q", "-o", str(self._output), "-p", str(self._pid)]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors)
        deadline = time.monotonic() + _ATTACH_TIMEOUT
        while not is_traced(self._pid):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._stop()
                raise self._refusal()
            time.sleep(_LOOK_AGAIN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        if kind is None:
            self.calls = parse_summary(self._output.read_text())

    def _refusal(self) -> Exception:
        said = self._errors.read_text(errors="replace").strip() or "nothing on stderr"
        if "not permitted" in said:
            return NotInstalledError(
                f"strace may not attach: run as root, or set kernel.yama.ptrace_scope to 0 ({said})"
            )
        return MeasurementError(f"strace did not attach: {said}")

    def _stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # it detaches and writes the summary
        self._process.wait()


def is_traced(pid: int) -> bool:
    """Whether every thread of the process has a tracer."""
    try:
        threads = [path.read_text(errors="replace") for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except (FileNotFoundError, ProcessLookupError):  # one ended meanwhile
        return False
    return bool(threads) and not any("\nTracerPid:\t0\n" in status for status in threads)


def parse_summary(text: str) -> dict[str, int]:
    """Calls by name from the table of `strace -c`. Raises MeasurementError for anything else."""
    calls: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) in (5, 6) and words[0].replace(".", "", 1).isdigit() and words[-1] != "total":
            calls[words[-1]] = int(words[3])
    if not calls:
        raise MeasurementError(f"strace counted nothing: {text[:200]!r}")
    return calls
