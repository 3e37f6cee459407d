"""Exception types, by the party at fault, and the check of a file that a command will write.

asyncio's own types stay where asyncio raises them, and an `OSError` is never wrapped: a program that
moves to loopcore keeps its `except` clauses. These types are for errors that asyncio does not have.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class LoopcoreError(Exception):
    """Base of loopcore's own errors; never raised itself."""


class UsageError(LoopcoreError):
    """The caller asked for something impossible; the message says what to do instead."""


class BackendError(LoopcoreError):
    """A backend broke the contract of its port (`loopcore.ports`): a bug in the backend, not in the program."""


class BackendClosedError(BackendError, RuntimeError):
    """A method of a backend was called after `close`. A RuntimeError is what asyncio raises if its loop is closed."""


class BackendUnavailableError(LoopcoreError):
    """The requested backend cannot run in this environment; the message lists what was tried and why it failed."""


def check_writable(path: Path) -> None:
    """Raise UsageError if no file can be written at `path`. Changes nothing there. Thread: any."""
    try:
        folder = path.absolute().parent
        if not folder.is_dir():
            raise UsageError(f"cannot write {str(path)!r}: there is no folder {str(folder)!r}")
        if path.is_dir():
            raise UsageError(f"cannot write {str(path)!r}: it is a folder")
        place = str(path)
        try:
            path.stat()  # a pipe must not be opened: its reader would see the end
        except FileNotFoundError:
            if not path.is_symlink():
                path.open("xb").close()
                path.unlink()
                return
            place = os.path.dirname(os.path.realpath(path))  # what a link names must not be made: others may choose it
            os.stat(place)
        if not os.access(place, os.W_OK):
            raise UsageError(f"cannot write {str(path)!r}: {os.strerror(errno.EACCES)}")
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror}") from None
