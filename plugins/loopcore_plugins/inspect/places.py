"""Places: where the sockets are, who may connect to them, and which of them are dead.

There is one socket for each loop, `PID.NUMBER.sock`, in LOOPCORE_INSPECT_DIR, else in `loopcore` under XDG_RUNTIME_DIR
(which only the user can enter), else in `loopcore-UID` under the directory for temporary files. The folder must belong
to the user, to root if that is root, and be closed to others: a user who could write there could pose as a process,
and in /tmp anyone can make a folder first.

A check of a path proves little: another user may replace the file of that name right after it. So the folder is opened
without following a link, the open folder is checked, and everything else goes through that descriptor. bind(2) and
connect(2) only take paths; on Linux a path through /proc/self/fd leads to the descriptor. Elsewhere they get the path
of the folder, which is as good where no other user may rename the folders above, as in a sticky directory like /tmp.
"""

import errno
import os
import re
import socket
import stat
import struct
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from loopcore.errors import UsageError

VARIABLE: Final = "LOOPCORE_INSPECT_DIR"
_NAME: Final = re.compile(r"(\d+)\.(\d+)\.sock")
_FOLDER_MODE: Final = 0o700
_SOCKET_MODE: Final = 0o600
_BACKLOG: Final = 8
_UCRED: Final = struct.Struct("iII")
"""pid, uid, gid: unix(7)."""
_DESCRIPTORS: Final = "/proc/self/fd"
"""Where a descriptor has a path: proc_pid_fd(5)."""
_NO_FOLDER: Final = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
"""The errors of different systems for a file or a link under O_DIRECTORY and O_NOFOLLOW."""


class Address(NamedTuple):
    """The socket of one loop. Addresses sort by process, then in the order in which the loops began to run."""

    pid: int
    loop: int
    path: Path

    def __str__(self) -> str:
        return f"{self.pid}.{self.loop}"


def pid_and_number(text: str) -> tuple[int, int | None] | None:
    """Return the process and the loop that `text` names: PID, for all its loops, or PID.NUMBER. None for other text."""
    pid, dot, number = text.partition(".")
    if not pid.isdecimal() or (dot and not number.isdecimal()):
        return None
    return int(pid), int(number) if dot else None


def check_platform() -> None:
    """Raise UsageError where there are no Unix sockets."""
    if not hasattr(socket, "AF_UNIX"):
        raise UsageError("inspect needs Unix sockets, which Python does not have on this platform")


def folder() -> Path:
    """Return the folder of the sockets, which need not exist. Raises UsageError if nothing can be there."""
    check_platform()
    chosen = os.environ.get(VARIABLE, "").strip()
    return Path(chosen) if chosen else _default_folder()


def _default_folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "loopcore"
    try:
        return Path(tempfile.gettempdir()) / f"loopcore-{os.geteuid()}"
    except FileNotFoundError:
        raise UsageError(
            f"no folder for temporary files can be written to; set {VARIABLE} to a folder of your own, or TMPDIR"
        ) from None


class Folder:
    """The folder of the sockets, opened and checked. Also a context manager that closes it.

    Raises UsageError for a folder that is a link, belongs to another user, is open to others, or cannot be opened;
    FileNotFoundError if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise
        except OSError as exc:
            reason = "is not a folder, or is a link" if exc.errno in _NO_FOLDER else f"cannot be opened: {exc.strerror}"
            raise UsageError(f"{path} {reason}; set {VARIABLE} to a folder of your own") from None
        try:
            self._check()
        except BaseException:
            os.close(self._fd)
            raise

    def _check(self) -> None:
        status = os.fstat(self._fd)
        if status.st_uid != os.geteuid():
            raise UsageError(f"{self.path} belongs to another user; set {VARIABLE} to a folder of your own")
        if stat.S_IMODE(status.st_mode) & 0o077:
            default = _default_folder()
            # A folder that the user names may serve others too, such as /tmp: its mode must not be changed.
            advice = (
                f"run `chmod 700 {default}`"
                if self.path == default
                else f"set {VARIABLE} to a folder of your own, such as {default}"
            )
            raise UsageError(f"{self.path} is open to other users; {advice}")

    def path_to(self, name: str) -> str:
        """Return a path to `name` in this folder, for bind(2) and connect(2). On Linux it cannot lead anywhere else."""
        return f"{_DESCRIPTORS}/{self._fd}/{name}" if os.path.isdir(_DESCRIPTORS) else str(self.path / name)

    def addresses(self) -> list[Address]:
        """Return the sockets that have a listener; sockets left behind by ended processes are removed."""
        return [each for each in self._scan() if exists(each.pid) or not self.remove_if_dead(each.path.name)]

    def remove_if_dead(self, name: str) -> bool:
        """Remove the socket `name` if it has no listener; return whether it has none."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(self.path_to(name))
            except ConnectionRefusedError:
                self.remove(name)
                return True
            except FileNotFoundError:
                return True
            except OSError:  # busy: its queue of connections is full
                return False
        return False

    def remove(self, name: str) -> None:
        """Remove `name` if it is there."""
        try:
            os.unlink(name, dir_fd=self._fd)
        except FileNotFoundError:
            pass

    def rename(self, name: str, to: str) -> None:
        """Give `name` another name."""
        os.rename(name, to, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def close(self) -> None:
        """Close it. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "Folder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _scan(self) -> list[Address]:
        found = ((name, _NAME.fullmatch(name)) for name in os.listdir(self._fd))
        return sorted(
            Address(int(match[1]), int(match[2]), self.path / name)
            for name, match in found
            if match is not None and self._is_socket(name)
        )

    def _is_socket(self, name: str) -> bool:
        try:
            return stat.S_ISSOCK(os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False


class Listener:
    """A listening, non-blocking socket for loop `number` of process `pid`, in the folder of the sockets.

    Dead sockets are removed first. Raises UsageError for a folder that is not safe, OSError for one that cannot be
    used.
    """

    def __init__(self, pid: int, number: int) -> None:
        place = folder()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        self._name = f"{pid}.{number}.sock"
        self.path = place / self._name
        self._folder = Folder(place)
        try:
            self._folder.addresses()
            self.sock = self._listen(f".{pid}.{number}.new")
        except BaseException:
            self._folder.close()
            raise

    def _listen(self, hidden: str) -> socket.socket:
        # It gets its name after listen(2), so that no other process takes it for dead before.
        self._folder.remove(hidden)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if sys.platform == "linux":
                # bind(2) creates the file with the mode of the socket, minus the umask: it is never open to others,
                # not even briefly. Elsewhere only the folder keeps them out.
                os.fchmod(sock.fileno(), _SOCKET_MODE)
            sock.bind(self._folder.path_to(hidden))
            sock.listen(_BACKLOG)
            self._folder.rename(hidden, self._name)
        except BaseException:
            sock.close()
            self._folder.remove(hidden)
            raise
        return sock

    def remove(self) -> None:
        """Remove the socket's file, if it exists. Raises OSError if it cannot be removed."""
        self._folder.remove(self._name)

    def close(self) -> None:
        """Close the socket and the folder, and leave the file. Idempotent."""
        self.sock.close()
        self._folder.close()


def addresses() -> list[Address]:
    """Return the sockets to connect to; sockets left behind are removed. Raises UsageError as `Folder`."""
    try:
        place = Folder(folder())
    except FileNotFoundError:
        return []
    with place:
        return place.addresses()


def may_connect(peer: socket.socket) -> bool:
    """Tell whether the peer is this user, or root. Elsewhere than on Linux the folder's mode decides."""
    if sys.platform != "linux":  # OpenBSD has SO_PEERCRED too, with another structure
        return True
    _, uid, _ = _UCRED.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return uid in (os.geteuid(), 0)


def exists(pid: int) -> bool:
    """Tell whether such a process may exist. False proves little: containers that share a folder number their own."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
