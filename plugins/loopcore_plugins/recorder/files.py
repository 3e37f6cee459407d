"""Files of the recorder: dumps, and the mapped file. Only their owner can read them; nothing else is overwritten."""

import errno
import mmap
import os
import stat
from pathlib import Path
from typing import Final

from loopcore.errors import UsageError
from loopcore.log import plugin_logger
from loopcore_plugins.recorder import layout

try:
    import fcntl
except ImportError:  # Windows, where a mapped file cannot be renamed
    fcntl = None  # type: ignore[assignment]

logger = plugin_logger.getChild("recorder")

MAGIC: Final = layout.MAGIC.to_bytes(8, "little")


def write_recording(path: Path, content: bytes | bytearray) -> None:
    """Write a dump. Raises OSError; FileExistsError for a file that is not a recording."""
    refuse_other_file(path)
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        with open(part, "xb", opener=_private) as file:
            file.write(content)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def refuse_other_file(path: Path) -> None:
    """Raise FileExistsError if there is a file at `path` that is not a recording, OSError if it cannot be read."""
    if path.exists() and not (path.is_file() and _begins_as_recording(path)):
        raise FileExistsError(errno.EEXIST, "this file is not a recording, and is not overwritten", str(path))


def _begins_as_recording(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(8) == MAGIC


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _at_once(name: str, flags: int) -> int:
    """Open a file whose name others may have taken: no link, and without waiting for the other end of a pipe."""
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def writable(path: Path) -> Path:
    """Return `path`. Raises UsageError if no file can be made there."""
    if not path.parent.is_dir():
        raise UsageError(f"recorder cannot write {path}: there is no directory {path.parent}; mkdir -p {path.parent}")
    if path.is_dir():
        raise UsageError(f"recorder cannot write {path}: it is a directory; name a file in it")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"recorder cannot write {path}: this user may not write in {path.parent}; name another place")
    return path


def map_new(path: Path, size: int) -> mmap.mmap:
    """Return the memory of a new file of `size` bytes. Raises UsageError if that cannot be had."""
    try:
        with open(path, "x+b", opener=_private) as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)  # until the memory is unmapped, or the process is killed
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error here, and not a SIGBUS later
            file.truncate(size)
            return mmap.mmap(file.fileno(), size)
    except OSError as exc:
        if not isinstance(exc, FileExistsError):
            path.unlink(missing_ok=True)
        raise UsageError(f"recorder cannot keep its records in {path}: {exc}; name another file") from exc


def keep_earlier(path: Path) -> None:
    """Rename the file of a process that did not end in order: it is what the recording was for.

    Raises UsageError if another process uses it, or if it is not a recording, or may not be renamed.
    """
    try:
        with open(path, "r+b", buffering=0, opener=_at_once) as file:
            begin = file.read(8) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return
    except BlockingIOError:
        raise UsageError(
            f"recorder cannot write {path}: another recorder does; put {{pid}} and {{n}} into the name"
        ) from None
    except OSError as exc:
        reason = "it is a link" if path.is_symlink() else exc.strerror
        raise UsageError(f"recorder cannot write {path}: {reason}; name another file") from None
    if begin != MAGIC:
        raise UsageError(f"recorder does not overwrite {path}, which is not a recording; name another file")
    earlier = path.with_name(f"{path.name}.old")
    try:
        os.replace(path, earlier)
    except OSError as exc:
        raise UsageError(f"recorder cannot rename {path} to {earlier}: {exc.strerror}; name another file") from None
    logger.warning("%s was left by a process that did not end in order; read it with: loopcore why %s", path, earlier)
