"""Places: where the sockets are, who may get at them, and which of them are dead.

One socket a loop, `PID.NUMBER.sock`, in LOOPCORE_INSPECT_DIR, else in `loopcore` under XDG_RUNTIME_DIR (which is the
user's alone), else in `loopcore-UID` under the directory for temporary files. The folder must be its user's own and
closed to others: whoever could write there could pose as a process, and in /tmp anybody can make a folder first.
"""

import os
import re
import socket
import stat
import struct
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from loopcore.errors import UsageError

VARIABLE: Final = "LOOPCORE_INSPECT_DIR"
_NAME: Final = re.compile(r"(\d+)\.(\d+)\.sock")
_FOLDER_MODE: Final = 0o700
_SOCKET_MODE: Final = 0o600
_BACKLOG: Final = 8
_UCRED: Final = struct.Struct("iII")
"""pid, uid, gid: unix(7)."""


class Address(NamedTuple):
    """The socket of one loop. They sort by process, then in the order in which the loops began to run."""

    pid: int
    loop: int
    path: Path

    def __str__(self) -> str:
        return f"{self.pid}.{self.loop}"


def folder() -> Path:
    """Return the folder of the sockets, which need not exist."""
    chosen, runtime = os.environ.get(VARIABLE, "").strip(), os.environ.get("XDG_RUNTIME_DIR")
    if chosen:
        return Path(chosen)
    if runtime:
        return Path(runtime) / "loopcore"
    return Path(tempfile.gettempdir()) / f"loopcore-{os.geteuid()}"


def check_folder(path: Path) -> None:
    """Raise UsageError if `path` is not a folder of this user (for root: of any) that is closed to all others."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path} is no folder; set {VARIABLE} to one of your own")
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise UsageError(f"{path} belongs to another user; set {VARIABLE} to a folder of your own")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise UsageError(f"{path} is open to other users; say `chmod 700 {path}`, or set {VARIABLE} to another folder")


def listen(pid: int, number: int) -> tuple[socket.socket, Path]:
    """Return a listening socket, not blocking, for loop `number` of `pid`, and its path. Removes dead ones on the way.

    Raises UsageError for a folder that is not safe, OSError for one that cannot be used.
    """
    place = folder()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    check_folder(place)
    for address in _scan(place):
        if not _exists(address.pid):
            remove_if_dead(address.path)
    path = place / f"{pid}.{number}.sock"
    # It gets its name when it listens, so that nobody takes it for dead before.
    hidden = place / f".{pid}.{number}.new"
    hidden.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(str(hidden))
        hidden.chmod(_SOCKET_MODE)
        listener.listen(_BACKLOG)
        hidden.rename(path)
    except BaseException:
        listener.close()
        hidden.unlink(missing_ok=True)
        raise
    return listener, path


def addresses() -> list[Address]:
    """Return what there is to connect to; what its process left behind is removed. Raises UsageError as `listen`."""
    place = folder()
    if not place.exists():
        return []
    check_folder(place)
    return [each for each in _scan(place) if _exists(each.pid) or not remove_if_dead(each.path)]


def remove_if_dead(path: Path) -> bool:
    """Remove the socket at `path` if nobody listens; return whether nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return True
        except FileNotFoundError:
            return True
        except OSError:  # busy: its queue of connections is full
            return False
    return False


def may_connect(peer: socket.socket) -> bool:
    """Tell whether the other end is of this user, or of root. Where the system does not say, the folder's mode does."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, uid, _ = _UCRED.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return uid in (os.geteuid(), 0)


def _exists(pid: int) -> bool:
    """Tell whether there may be such a process. False says little: containers that share a folder count their own."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _scan(place: Path) -> list[Address]:
    found = ((path, _NAME.fullmatch(path.name)) for path in place.iterdir())
    return sorted(Address(int(match[1]), int(match[2]), path) for path, match in found if match is not None)
