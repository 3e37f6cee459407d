"""Keyboard: single keys from a terminal, without their echo, by name."""

import os
import re
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NAMES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\b": "backspace",
}
_KEY: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)
_CHUNK: Final = 64


@contextmanager
def keyboard() -> Iterator[int]:
    """Yield the descriptor of standard input, in a mode in which each key can be read when it is pressed."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield fd
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def read_keys(fd: int) -> list[str]:
    """Return the keys that were pressed: characters unchanged, others by name. Empty if the terminal has gone."""
    try:
        pressed = os.read(fd, _CHUNK).decode("utf-8", "replace")
    except OSError:
        return []
    # Keys without a name here, such as F1, are dropped whole.
    return [_NAMES.get(key, key) for key in _KEY.findall(pressed) if len(key) == 1 or key in _NAMES]
