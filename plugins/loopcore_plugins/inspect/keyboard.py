"""Keyboard: single keys from a terminal, without their echo, by name."""

import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SEQUENCES: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b": "escape",
}
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
    """Return the keys that were pressed: letters unchanged, others by name. Empty if the terminal has gone."""
    rest = os.read(fd, _CHUNK)
    keys: list[str] = []
    while rest:
        sequence = next((each for each in _SEQUENCES if rest.startswith(each)), None)
        if sequence is None:
            keys.append(rest[:1].decode("ascii", "replace"))
            rest = rest[1:]
        else:
            keys.append(_SEQUENCES[sequence])
            rest = rest[len(sequence) :]
    return keys
