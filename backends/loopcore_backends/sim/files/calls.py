"""What stands in for Python's functions of files, and the operations of the completion port."""

import builtins
import errno
import glob
import io
import operator
import os
import ssl
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from loopcore.errors import LoopcoreError
from loopcore.ports.operations import CLOSE, OPEN, READ_FILE, STAT, SYNC, WRITE_FILE
from loopcore_backends.sim.descriptors import error, is_simulated
from loopcore_backends.sim.files.inodes import File
from loopcore_backends.sim.files.opening import Openings
from loopcore_backends.sim.files.system import REAL, Files
from loopcore_backends.sim.refusals import refusal
from loopcore_backends.sim.replacing import Replacement

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World

_BY_PATH: Final = (
    "open", "stat", "lstat", "access", "chmod", "chown", "lchown", "utime", "statvfs", "listxattr", "getxattr",
    "setxattr", "listdir", "scandir", "mkdir", "rmdir", "unlink", "readlink", "chdir", "truncate",
)  # fmt: skip
_BY_TWO_PATHS: Final = ("symlink", "rename", "link")
_BY_DESCRIPTOR: Final = (
    "fstat", "ftruncate", "lseek", "pread", "pwrite", "preadv", "pwritev", "fsync", "posix_fallocate", "posix_fadvise",
)  # fmt: skip
_WITHOUT: Final = ("getcwd", "getcwdb", "umask", "sync")
_SAME: Final = {
    "remove": "unlink", "replace": "rename", "fdatasync": "fsync", "fchdir": "chdir", "fchmod": "chmod",
    "fchown": "chown", "fstatvfs": "statvfs", "removexattr": "setxattr",
}  # fmt: skip
_REFUSED: Final = ("mkfifo", "mknod", "chroot")
_UTIME_NAMES_FILES: Final = sys.version_info >= (3, 13)
"""The error of os.utime has the name of the file."""


class _Names(set[Any]):
    """A set of functions that also contains what stands in for them: shutil asks os.supports_follow_symlinks."""

    def __contains__(self, function: object) -> bool:
        return getattr(function, "__name__", "") in {each.__name__ for each in self}


def replacements(world: "World") -> list[Replacement]:
    """Return what stands in for functions of builtins, io, os, fcntl and ssl: (owner, name, value)."""
    files = Files(world)
    found: list[Replacement] = []

    def replace(name: str, value: object) -> None:
        if name in REAL:
            found.append((os, name, value))

    by_path = {name: _by_path(name, getattr(files, name)) for name in _BY_PATH}
    by_path |= {name: _by_two_paths(getattr(files, name)) for name in _BY_TWO_PATHS}
    by_path |= {name: _by_descriptor(name, getattr(files, name)) for name in _BY_DESCRIPTOR}
    by_path |= {name: getattr(files, name) for name in _WITHOUT}
    for name, value in by_path.items():
        replace(name, value)
    for name, other in _SAME.items():
        if other in _BY_DESCRIPTOR or name.startswith("f"):
            replace(name, _by_descriptor(name, getattr(files, other)))
        else:
            replace(name, by_path[other])
    for name in _REFUSED:
        replace(name, refusal(f"os.{name}()", "use files, directories and os.pipe()"))
    replace("sendfile", _either_of_two("sendfile", files.sendfile))
    replace("copy_file_range", _either_of_two("copy_file_range", files.copy_file_range))
    for name in ("supports_dir_fd", "supports_fd", "supports_follow_symlinks"):
        found.append((os, name, _Names(getattr(os, name))))
    openings = Openings(world)
    found += [(builtins, "open", openings.open), (io, "open", openings.open), (io, "FileIO", openings.file_io_class())]
    return found + _copies(by_path) + _locks(world, files) + _certificates(files, openings)


# ---------------------------------------------------------------- the shapes of the functions


def _named(exc: OSError, *names: Any) -> OSError:
    """Return the error with the names of the files, as the functions of `os` raise it."""
    if exc.filename is not None or exc.errno is None:
        return exc
    if len(names) == 1:
        return OSError(exc.errno, exc.strerror, names[0])
    return OSError(exc.errno, exc.strerror, names[0], None, names[1])


def _by_path(name: str, simulated: Callable[..., Any]) -> Callable[..., Any]:
    real = REAL.get(name)

    def call(path: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(path, int) and not is_simulated(path):
            assert real is not None
            return real(path, *args, **kwargs)
        if hasattr(type(path), "__index__") and not isinstance(path, (int, str, bytes)) and real is not None:
            return call(operator.index(path), *args, **kwargs)  # before __fspath__: a mock has both
        if path is not None and not isinstance(path, int):
            os.fspath(path)  # TypeError if it is not a path
        elif path is None and name not in ("listdir", "scandir", "listxattr"):
            raise TypeError(f"{name}: path should be string, bytes or os.PathLike, not NoneType")
        try:
            return simulated(path, *args, **kwargs)
        except OSError as exc:
            if name == "utime" and not _UTIME_NAMES_FILES:
                raise
            raise _named(exc, path) from None

    return call


def _by_two_paths(simulated: Callable[..., Any]) -> Callable[..., Any]:
    def call(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
        os.fspath(src), os.fspath(dst)
        try:
            return simulated(src, dst, *args, **kwargs)
        except OSError as exc:
            raise _named(exc, src, dst) from None

    return call


def _by_descriptor(name: str, simulated: Callable[..., Any]) -> Callable[..., Any]:
    real = REAL.get(name)

    def call(fd: Any, *args: Any, **kwargs: Any) -> Any:
        number = fd if isinstance(fd, int) or not hasattr(fd, "fileno") else fd.fileno()
        if not is_simulated(number):
            assert real is not None
            return real(fd, *args, **kwargs)
        return simulated(number, *args, **kwargs)

    return call


def _either_of_two(name: str, simulated: Callable[..., Any]) -> Callable[..., Any]:
    real = REAL.get(name)

    def call(one: int, two: int, *args: Any, **kwargs: Any) -> Any:
        if is_simulated(one) or is_simulated(two) or real is None:
            return simulated(one, two, *args, **kwargs)
        return real(one, two, *args, **kwargs)

    return call


def _copies(by_path: dict[str, Callable[..., Any]]) -> list[Replacement]:
    """What Python's own classes have copied: a default argument of tempfile, attributes of a class of glob (3.13)."""
    found: list[Replacement] = []
    closer: Any = tempfile._TemporaryFileCloser  # type: ignore[attr-defined]
    for name in ("close", "cleanup"):
        original = vars(closer).get(name)
        if original is not None and "unlink" in original.__code__.co_varnames:
            found.append((closer, name, partial(_with_unlink, original, by_path["unlink"])))
    globber = getattr(glob, "_StringGlobber", None)
    for name in ("lstat", "scandir"):
        if globber is not None and getattr(vars(globber).get(name), "__func__", None) is REAL[name]:
            found.append((globber, name, by_path[name]))
    return found


def _with_unlink(original: Callable[..., None], unlink: Callable[..., None], closer: Any) -> None:
    original(closer, unlink=unlink)


# ---------------------------------------------------------------- locks


def _locks(world: "World", files: Files) -> list[Replacement]:
    import fcntl

    table = world.descriptors
    real_flock, real_lockf, real_fcntl, real_ioctl = fcntl.flock, fcntl.lockf, fcntl.fcntl, fcntl.ioctl

    def number_of(fd: Any) -> int:
        number: int = fd if isinstance(fd, int) else fd.fileno()
        return number

    def flock(fd: Any, operation: int) -> None:
        if not is_simulated(number_of(fd)):
            return real_flock(fd, operation)
        opened = files.open_file(number_of(fd))
        if operation & fcntl.LOCK_UN:
            opened.unlock()
        else:
            opened.lock(bool(operation & fcntl.LOCK_EX), None if operation & fcntl.LOCK_NB else world.block)
        return None

    def lockf(fd: Any, cmd: int, *args: int) -> Any:
        if not is_simulated(number_of(fd)):
            return real_lockf(fd, cmd, *args)
        files.open_file(number_of(fd))  # locks of the one process of a host never exclude each other
        return None

    def control(fd: Any, cmd: int, arg: Any = 0) -> Any:
        if not is_simulated(number_of(fd)):
            return real_fcntl(fd, cmd, arg)
        description = table.get(number_of(fd))
        if cmd == fcntl.F_GETFL:
            flags = getattr(description, "flags", os.O_RDWR) & ~os.O_NONBLOCK
            return flags | (0 if description.blocking else os.O_NONBLOCK)
        if cmd == fcntl.F_SETFL:
            description.blocking = not arg & os.O_NONBLOCK
        elif cmd == fcntl.F_GETFD:
            return 0 if table.is_inheritable(number_of(fd)) else fcntl.FD_CLOEXEC
        elif cmd == fcntl.F_SETFD:
            table.set_inheritable(number_of(fd), not arg & fcntl.FD_CLOEXEC)
        elif cmd in (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC):
            return table.dup(number_of(fd))
        else:
            raise error(errno.EINVAL)
        return 0

    def ioctl(fd: Any, *args: Any) -> Any:
        if not is_simulated(number_of(fd)):
            return real_ioctl(fd, *args)
        raise error(errno.ENOTTY)

    return [(fcntl, "flock", flock), (fcntl, "lockf", lockf), (fcntl, "fcntl", control), (fcntl, "ioctl", ioctl)]


# ---------------------------------------------------------------- what opens files in C


def _certificates(files: Files, openings: Openings) -> list[Replacement]:
    """Functions of ssl that open files in C: give them a real copy of a simulated file, for the time of the call."""
    real_chain, real_locations = ssl.SSLContext.load_cert_chain, ssl.SSLContext.load_verify_locations

    def copied(path: Any, copies: list[str]) -> Any:
        if path is None:
            return None
        inode = files.disk.find(os.fsdecode(path))
        if not isinstance(inode, File) or inode.real is not None:
            return path
        with openings.open(path, "rb") as source:
            content = source.read()
        # From memory: nothing is left on the real disk.
        fd = REAL["memfd_create"]("certificate")
        copies.append(fd)
        REAL["write"](fd, content)
        return f"/proc/self/fd/{fd}"

    def with_copies(call: Callable[[Callable[[Any], Any]], Any]) -> Any:
        copies: list[Any] = []
        try:
            return call(lambda path: copied(path, copies))
        finally:
            for fd in copies:
                REAL["close"](fd)

    def load_cert_chain(self: ssl.SSLContext, certfile: Any, keyfile: Any = None, password: Any = None) -> None:
        with_copies(lambda copy: real_chain(self, copy(certfile), copy(keyfile), password))

    def load_verify_locations(self: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        with_copies(lambda copy: real_locations(self, copy(cafile), capath, cadata))

    return [
        (ssl.SSLContext, "load_cert_chain", load_cert_chain),
        (ssl.SSLContext, "load_verify_locations", load_verify_locations),
    ]


# ---------------------------------------------------------------- for the completion port


def perform(world: "World", operation: Any) -> Any:
    """Do an Open, Read, Write, Sync, Stat or Close of loopcore.ports.operations; return its result, or an OSError."""
    files = Files(world)
    code, fd = operation.code, operation.fd
    try:
        if code == OPEN:
            return files.open(operation.path, operation.flags | os.O_CLOEXEC, operation.mode)
        if code == STAT:
            if operation.path is None:
                return files.fstat(fd) if is_simulated(fd) else REAL["fstat"](fd)
            return files.stat(operation.path, follow_symlinks=operation.follow)
        if code == READ_FILE:
            return _read(files, fd, operation.limit, operation.offset)
        if code == WRITE_FILE:
            data = b"".join(bytes(buffer) for buffer in operation.buffers)[operation.head :]
            return _write(files, fd, data, operation.offset)
        if code == SYNC:
            return files.fsync(fd) if is_simulated(fd) else REAL["fsync"](fd)
        if code == CLOSE:
            return files.table.close(fd) if is_simulated(fd) else REAL["close"](fd)
    except OSError as exc:
        return exc.with_traceback(None)
    raise LoopcoreError(f"{operation!r} is no operation of a file")


def _read(files: Files, fd: int, limit: int, offset: int) -> Any:
    if not is_simulated(fd):
        return REAL["read"](fd, limit) if offset == -1 else REAL["pread"](fd, limit, offset)
    return files.table.get(fd).read(limit) if offset == -1 else files.pread(fd, limit, offset)


def _write(files: Files, fd: int, data: bytes, offset: int) -> Any:
    if not is_simulated(fd):
        return REAL["write"](fd, data) if offset == -1 else REAL["pwrite"](fd, data, offset)
    return files.table.get(fd).write(data) if offset == -1 else files.pwrite(fd, data, offset)
