"""Modes: the mode letters of built-in `open`, and which files are accepted.

Binary only. Text would need a decoder that can undo a cancelled read in the middle of a
character, and opaque positions; `bytes.decode` and `codecs.iterdecode` do it better outside.
"""

import errno
import io
import os
import stat
import sys
from typing import Final, NamedTuple

_ALWAYS: Final = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOINHERIT", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOCTTY", 0)
)
NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)
"""Opening must not wait: not even for the other end of a FIFO that has just replaced a file."""

_PERMISSIONS: Final = 0o666
"""The permissions of a new file, before the umask; the same as with built-in `open`."""

_KINDS: Final = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
}
_DIRECTION: Final = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

_NAMES_TRUNCATION: Final = sys.version_info >= (3, 15)
"""Whether the mode of a file opened with "w+b" is spelled "wb+" and not "rb+" (gh-69528)."""


class Mode(NamedTuple):
    """A parsed mode. `name` is the spelling of built-in `open`."""

    name: str
    reading: bool
    writing: bool
    appending: bool
    creating: bool
    flags: int
    permissions: int = _PERMISSIONS


def parse(mode: str) -> Mode:
    """Parse `mode`. Raises ValueError for a mode that built-in `open` would reject, and for text modes."""
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
            f"loopcore.files is binary: use mode {mode.replace('t', '')}b instead of {mode!r}, and decode the bytes"
        )
    (kind,) = kinds
    both = "+" in letters
    flags = _KINDS[kind] | _ALWAYS
    if both:
        flags = flags & ~_DIRECTION | os.O_RDWR
    name = ("r" if both and kind == "w" and not _NAMES_TRUNCATION else kind) + "b" + "+" * both
    return Mode(name, both or kind == "r", both or kind != "r", kind == "a", kind == "x", flags)


def check_kind(path: str | bytes, mode: int) -> None:
    """Refuse a file that is known, before it is opened, to have no position. `mode` is st_mode."""
    if stat.S_ISFIFO(mode):
        raise _no_position(path)


def check_opened(path: str | bytes, fd: int, mode: int) -> None:
    """Refuse a directory or a file without a position; clear O_NONBLOCK of any other. No disk access.

    `mode` is st_mode, or 0 if unknown.
    """
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    try:
        os.lseek(fd, 0, os.SEEK_CUR)
    except OSError as exc:
        if exc.errno != errno.ESPIPE:
            raise
        raise _no_position(path) from None
    if NONBLOCK:
        os.set_blocking(fd, True)  # with O_NONBLOCK, io_uring reads may fail with EAGAIN on some file systems


def _no_position(path: str | bytes) -> OSError:
    return io.UnsupportedOperation(
        f"{path!r} is a pipe, a terminal or the like, and has no position: open it with built-in open, "
        "and use loop.connect_read_pipe or loop.connect_write_pipe"
    )
