"""A terminal for a test: runs `loopcore top` in it, presses keys, and sees what is on the screen."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path
from types import TracebackType

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from tests.plugins.inspect.processes import PATIENCE

HOME = b"\x1b[?2026h\x1b[H"
END = b"\x1b[?2026l"
"""The begin and the end of a frame, which is written at once."""
CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A context manager around the command, which has ended when it is left, or is killed."""

    def __init__(
        self, *arguments: str, columns: int = 80, rows: int = 24, interval: float = 0.2, **environment: str
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(columns, rows)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "loopcore", "top", "--interval", str(interval), *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=_inherited() | environment,
        )
        os.close(theirs)
        self._shown = b""
        self.frame = b""
        """The screen that `wait_for` found, with its control sequences."""

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Press keys, one after the other."""
        os.write(self._ours, keys.encode())

    def wait_for(self, condition: Callable[[list[str]], object]) -> list[str]:
        """Return the lines of the first whole screen for which the condition is true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self._read(end - time.monotonic()):
            while END in self._shown:
                screen, _, self._shown = self._shown.partition(END)
                self.frame = screen.partition(HOME)[2]
                lines = CONTROL.sub(b"", self.frame).decode("utf-8", "replace").replace("\r", "").split("\n")
                if condition(lines):
                    return lines
        raise AssertionError(f"it was never shown; last: {CONTROL.sub(b'', self._shown).decode('utf-8', 'replace')}")

    def rest(self) -> str:
        """Return what is left on the screen when the command has ended."""
        while self._read(PATIENCE):
            pass
        return CONTROL.sub(b"", self._shown).decode()

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            received = os.read(self._ours, 65536)
        except OSError:  # EIO: nobody has the other end any more
            return False
        self._shown += received
        return bool(received)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._ours)


def _inherited() -> dict[str, str]:
    """Return the environment for a child, without what would be taken for the size of the terminal."""
    inherited = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    return inherited | {"TERM": "xterm-256color"}


def print_in_terminal(command: list[str], columns: int) -> bytes:
    """Run a command to its end in a terminal; return what it has printed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=_inherited()) as process:
        os.close(theirs)
        printed = b""
        with suppress(OSError):  # EIO: it has ended
            while received := os.read(ours, 65536):
                printed += received
    os.close(ours)
    assert process.returncode == 0, printed
    return printed


def save_picture(frame: bytes, path: Path, size: tuple[int, int], title: str = "loopcore top") -> None:
    """Write a screen of `size` (columns, rows), colours included, as an SVG that fetches nothing."""
    width, height = size
    console = Console(width=width, height=height, record=True, file=StringIO(), force_terminal=True)
    for line in frame.decode().split("\n"):
        console.print(Text.from_ansi(line.rstrip("\r")), no_wrap=True, overflow="crop")
    # Without the fonts that rich would fetch from the network.
    template = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    console.save_svg(str(path), title=title, code_format=template)
