"""Modes: what the letters of built-in `open` mean, and which files are taken.

Binary only. Text would need a decoder that can give up a cancelled read without having swallowed half a
character, and positions that are opaque; `bytes.decode` and `codecs.iterdecode` do it better outside.
"""

import errno
import io
import os
import stat
from typing import Final, NamedTuple

_ALWAYS: Final = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOINHERIT", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOCTTY", 0)
)
NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)
"""Opening waits for nobody: not for the other end of a FIFO that has just taken the place of a file."""

_PERMISSIONS: Final = 0o666
"""What a new file allows, less the umask; as built-in `open` has it."""

_KINDS: Final = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
}
_DIRECTION: Final = os.O_RDONLY | os.O_WRONLY | os.O_RDWR


class Mode(NamedTuple):
    """A mode, taken apart. `name` is how built-in `open` spells it."""

    name: str
    reading: bool
    writing: bool
    appending: bool
    creating: bool
    flags: int
    permissions: int = _PERMISSIONS


def parse(mode: str) -> Mode:
    """Take `mode` apart. Raises ValueError for what built-in `open` would not take, and for text."""
    if not isinstance(mode, str):
        raise TypeError(f"mode must be str, not {type(mode).__name__}")
    letters = set(mode)
    if len(letters) != len(mode) or letters - set("rwxabt+"):
        raise ValueError(f"invalid mode: {mode!r}")
    kinds = letters & set("rwxa")
    if len(kinds) != 1:
        raise ValueError(f"must have exactly one of create/read/write/append mode, not {mode!r}")
    if "b" not in letters or "t" in letters:
        raise ValueError(
            f"loopcore.files is binary: say {mode.replace('t', '')}b in place of {mode!r}, and decode bytes"
        )
    (kind,) = kinds
    both = "+" in letters
    flags = _KINDS[kind] | _ALWAYS
    if both:
        flags = flags & ~_DIRECTION | os.O_RDWR
    name = ("r" if both and kind == "w" else kind) + "b" + "+" * both
    return Mode(name, both or kind == "r", both or kind != "r", kind == "a", kind == "x", flags)


def check_kind(path: str | bytes, mode: int) -> None:
    """Refuse what is known before it is opened to have no position. `mode` is st_mode."""
    if stat.S_ISFIFO(mode):
        raise _no_position(path)


def check_opened(path: str | bytes, fd: int, mode: int) -> None:
    """Refuse a directory and what has no position. None of these calls waits for a disk. `mode` is st_mode, or 0."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    try:
        os.lseek(fd, 0, os.SEEK_CUR)
    except OSError as exc:
        if exc.errno != errno.ESPIPE:
            raise
        raise _no_position(path) from None
    if NONBLOCK:
        os.set_blocking(fd, True)  # for io_uring it means, of some file systems, that reads may fail with EAGAIN


def _no_position(path: str | bytes) -> OSError:
    return io.UnsupportedOperation(
        f"{path!r} is a pipe, a terminal or alike, and has no position: open it with built-in open, "
        "and use loop.connect_read_pipe or loop.connect_write_pipe"
    )
