"""SharedFolder: a new folder in which the command and the process under inspection find each other's files.

The folder is given to the user of the process, and that user can replace it. So the command reads and writes it through
a descriptor, never through its path. The process uses the path, so other users must not be able to put a folder of
theirs there: `_check_parent` refuses a parent that lets them, and the folder stays while the script is pending.
"""

import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Any, Final

from loopcore.errors import UsageError
from loopcore_plugins.attach import agent
from loopcore_plugins.attach.process import Process

_LONGEST: Final = 60
"""Bytes of the parent's path: that of a socket has at most 107."""


class SharedFolder:
    """A folder of mode 0700 with a path that both processes understand; `with` removes it.

    Raises UsageError where none can be made, OSError if a call on it fails. Thread: one.
    """

    def __init__(self, process: Process) -> None:
        self.script_pending = False
        """Whether the process may still run the script. The folder stays then: it keeps its name from other users."""
        try:
            usual = Path(tempfile.gettempdir()).resolve()
        except FileNotFoundError:
            raise UsageError("no folder for temporary files can be written to; set TMPDIR to one of your own") from None
        fits = process.sees(usual) and len(os.fsencode(usual)) < _LONGEST
        parent = usual if fits else process.root / "root/tmp"  # the process may have a private /tmp
        try:
            _check_parent(parent, process)
            self.path = Path(tempfile.mkdtemp(prefix="loopcore-attach-", dir=parent))
        except OSError as exc:
            raise UsageError(f"no folder can be made in {parent}: {exc.strerror}; set TMPDIR to another") from None
        self._number = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        status = os.fstat(self._number)
        self.identity = (status.st_dev, status.st_ino)
        """Device and number: what is removed by the path is this folder."""

    def __enter__(self) -> "SharedFolder":
        return self

    def __exit__(self, *exc: Any) -> None:
        os.close(self._number)
        if not self.script_pending:
            agent.remove(str(self.path), self.identity)

    def open(self, name: str, flags: int) -> int:
        """Return a descriptor of the file `name`, which is not a link."""
        return os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=self._number)

    def bind(self, listener: socket.socket) -> None:
        """Bind `listener` to `socket`."""
        os.fchmod(listener.fileno(), 0o600)  # the mode of the file that bind(2) makes
        listener.bind(f"/proc/self/fd/{self._number}/socket")

    def write(self, name: str, text: str) -> None:
        """Make the file `name`."""
        with open(self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as file:
            file.write(text)

    def give_to(self, uid: int) -> None:
        """Make the files, and last the folder, those of the user `uid`."""
        if uid != os.geteuid():
            for name in os.listdir(self._number):
                os.chown(name, uid, -1, dir_fd=self._number, follow_symlinks=False)
            os.fchown(self._number, uid, -1)


def _check_parent(parent: Path, process: Process) -> None:
    """Raise UsageError if users who have nothing to do with `process` could replace a folder in `parent`."""
    trusted = {os.stat("/").st_uid, os.geteuid(), process.uid()}
    for each in (parent, *parent.parents):
        status = each.stat()
        is_open = status.st_mode & (stat.S_IWOTH | stat.S_IWGRP) and not status.st_mode & stat.S_ISVTX
        if is_open or status.st_uid not in trusted or (each == parent and each.is_symlink()):
            raise UsageError(
                f"other users could replace what is written in {parent}, because of {each}; "
                f"set TMPDIR to a folder of your own"
            )
