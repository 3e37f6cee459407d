"""LiveFile: a file that is touched while the process is live, for probes that run a command.

The loops and plugins of a process that name the same file share it. It is removed with the last of them, and at the end
of the interpreter. A process that is killed leaves it behind, with the time of the last touch. A forked child does
not touch its parent's file.
"""

import atexit
import errno
import os
import stat
import threading
from pathlib import Path
from typing import Final

from loopcore.errors import UsageError
from loopcore.log import plugin_logger
from loopcore_plugins.watchdog.clocks import Collections, Moment
from loopcore_plugins.watchdog.health import liveness
from loopcore_plugins.watchdog.watch_thread import Subject, watch_thread

logger = plugin_logger.getChild("watchdog")

INTERVAL: Final = 1.0
"""Seconds between two touches."""
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Others may have put a link or a pipe at the name. Python adds O_CLOEXEC."""

_lock = threading.RLock()
"""Held to change the files and the table of them; reentrant, because a garbage collection under it may close a loop."""
_files: "dict[Path, LiveFile]" = {}


class LiveFile(Subject):
    """The file at `path`. Thread: the watch thread's, except `remove`."""

    threshold = INTERVAL

    def __init__(self, path: Path) -> None:
        self.path = path
        self.users = 0
        self._touched = float("-inf")
        self._failed = False

    def look(self, moment: Moment, collections: Collections) -> None:
        """Touch the file, unless the process is not live or it was just touched."""
        if moment.now - self._touched < INTERVAL * 0.75 or liveness():
            return
        self._touched = moment.now
        with _lock:
            if not self.gone:
                self.touch()

    def touch(self) -> None:
        """Touch the file; an error is logged."""
        try:
            _touch(self.path)
        except OSError as exc:
            if not self._failed:
                logger.error("the watchdog cannot touch %s, a probe of it will fail: %s", self.path, exc)
            self._failed = True
        else:
            self._failed = False

    def remove(self) -> None:
        """Remove the file, and never touch it again. Thread: any."""
        with _lock:
            self.gone = True
            try:
                self.path.unlink(missing_ok=True)
            except OSError as exc:
                logger.error("the watchdog cannot remove %s: %s", self.path, exc)
        watch_thread().hurry()


def _touch(path: Path) -> None:
    """Touch a file of this user, made if there is none. Raises OSError for anything else, such as a link."""
    fd = os.open(path, _FLAGS, 0o600)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or (hasattr(os, "geteuid") and status.st_uid != os.geteuid()):
            raise PermissionError(errno.EPERM, "it is not a file of this user", str(path))
        os.utime(fd if os.utime in os.supports_fd else path)
    finally:
        os.close(fd)


def check_writable(path: Path) -> None:
    """Raise UsageError if `path` cannot be touched, or is not a file of this kind: they are empty."""
    try:
        try:
            status = path.lstat()
        except FileNotFoundError:
            _touch(path)
            path.unlink()
            return
        if not stat.S_ISREG(status.st_mode) or status.st_size:
            raise UsageError(f"watchdog would remove {path} at the end, which is not an empty file; name a new file")
        _touch(path)
    except OSError as exc:
        raise UsageError(
            f"watchdog cannot write {path}: {exc.strerror}; name a file in a folder that the process may write to, "
            "such as file=/tmp/live"
        ) from exc


def open_file(path: Path) -> None:
    """Touch the file at `path` from now on, while the process is live, until `close_file`."""
    with _lock:
        file = _files.get(path)
        if file is None:
            file = LiveFile(path)
            watch_thread().add(file)
            file.touch()
            _files[path] = file
        file.users += 1


def close_file(path: Path) -> None:
    """End what `open_file` began; the last one removes the file."""
    with _lock:
        file = _files.get(path)
        if file is None:
            return
        file.users -= 1
        if not file.users:
            del _files[path]
            file.remove()


def _remove_all() -> None:
    for file in list(_files.values()):
        file.remove()


def _reset_in_child() -> None:
    """Reset in a forked child: the files are the parent's, and the lock may be held."""
    global _lock
    _lock = threading.RLock()
    _files.clear()


atexit.register(_remove_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
