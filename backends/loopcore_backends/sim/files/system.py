"""The functions of `os` for files, over the disk of the host that runs.

Each takes what the real one takes. Real descriptor numbers, and paths in the trees of the real kernel, go to the real
functions; so does the opening of an unchanged real file for reading only. Nothing real is ever changed.

`os.read`, `os.write`, `os.close` and `os.dup` work on any description: loopcore_backends.sim.calls has them.
"""

import errno
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from loopcore_backends.sim.clock import wall_ns
from loopcore_backends.sim.descriptors import error, is_simulated, scatter
from loopcore_backends.sim.files.descriptor import ACCESS, OpenFile, open_inode
from loopcore_backends.sim.files.disk import Disk, Place
from loopcore_backends.sim.files.inodes import PAGE, Directory, File, Foreign, Inode, Socket, Symlink
from loopcore_backends.sim.refusals import not_simulated

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host
    from loopcore_backends.sim.world import World

REAL = {name: getattr(os, name) for name in dir(os) if callable(getattr(os, name)) and name.islower()}
"""The real functions of `os`, by name."""
_MEMORY_DEVICES = frozenset(["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"])
_RANDOM_DEVICES = frozenset(["/dev/random", "/dev/urandom", "/dev/hwrng"])


def new_disk(host: "Host") -> Disk:
    """Return a disk whose times are of the wall clock of `host`."""
    return Disk(lambda: wall_ns(host.world.now, host))


class Entry:
    """What `os.scandir` yields, like os.DirEntry, which cannot be subclassed."""

    __slots__ = ("_at", "_disk", "_name", "name", "path")

    def __init__(self, disk: Disk, at: Directory, name: str, folder: Any) -> None:
        self._disk, self._at, self._name = disk, at, name
        as_bytes = isinstance(folder, bytes)
        self.name: str | bytes = os.fsencode(name) if as_bytes else name
        self.path: str | bytes = self.name if isinstance(folder, int) else os.path.join(folder, self.name)

    def __fspath__(self) -> str | bytes:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def inode(self) -> int:
        return self._disk.find(self._name, self._at, follow=False).number

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        try:
            inode = self._disk.find(self._name, self._at, follow=follow_symlinks)
            return _status(self._disk, inode, follow_symlinks)
        except OSError as exc:
            raise OSError(exc.errno, exc.strerror, self.path) from None

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_IFDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_IFREG, follow_symlinks)

    def is_symlink(self) -> bool:
        return self._is(stat.S_IFLNK, False)

    def is_junction(self) -> bool:
        return False

    def _is(self, kind: int, follow: bool) -> bool:
        try:
            return stat.S_IFMT(self.stat(follow_symlinks=follow).st_mode) == kind
        except FileNotFoundError:
            return False


class Scan:
    """The result of `os.scandir`."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> "Scan":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _status(disk: Disk, inode: Inode, follow: bool = True) -> os.stat_result:
    if isinstance(inode, Foreign):
        found: os.stat_result = REAL["stat"](inode.path, follow_symlinks=follow)
        return found
    disk.refresh(inode)
    return inode.status()


class Files:
    """The calls, each under the name that it has in `os`."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.table = world.descriptors

    @property
    def disk(self) -> Disk:
        """The disk of the host that runs."""
        return self.world.host.disk

    # --- paths --------------------------------------------------------------------------------------

    def _at(self, path: str, dir_fd: int | None) -> Directory | None:
        if dir_fd is None or path.startswith("/"):
            return None
        if not is_simulated(dir_fd):
            inode = self.disk.find(REAL["readlink"](f"/proc/self/fd/{dir_fd}"))
        else:
            inode = self.open_file(dir_fd).inode
        if not isinstance(inode, Directory):
            raise error(errno.ENOTDIR)
        return inode

    def _find(self, path: Any, dir_fd: int | None = None, follow: bool = True) -> Inode:
        if isinstance(path, int):
            return self.open_file(path).inode
        name = os.fsdecode(path)
        return self.disk.find(name, self._at(name, dir_fd), follow=follow)

    def _changeable(self, path: Any, dir_fd: int | None = None, follow: bool = True) -> Inode:
        inode = self._find(path, dir_fd, follow)
        if isinstance(inode, Foreign):
            raise error(errno.EROFS)
        if self.disk.uid not in (0, inode.uid):
            raise error(errno.EPERM)
        if isinstance(inode, File):
            self.disk.own(inode)
        return inode

    def _new_place(self, path: Any, dir_fd: int | None) -> Place:
        name = os.fsdecode(path)
        place = self.disk.place(name, self._at(name, dir_fd), changing=True)
        if isinstance(place.inode, Foreign):
            raise error(errno.EROFS)
        return place

    # --- opening ------------------------------------------------------------------------------------

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        name = os.fsdecode(path)
        disk = self.disk
        inode, name = open_inode(disk, name, flags, mode, self._at(name, dir_fd))
        if isinstance(inode, Foreign):
            return self._open_foreign(inode.path, flags)
        if isinstance(inode, File) and inode.real is not None:
            fd: int = REAL["open"](inode.real, flags & ~(os.O_CREAT | os.O_EXCL))
            return fd
        assert isinstance(inode, (File, Directory))
        opened = OpenFile(self.world.host, disk, inode, flags, name)
        return self.table.install(opened)

    def _open_foreign(self, path: str, flags: int) -> int:
        if path in _RANDOM_DEVICES:
            raise not_simulated(f"opening {path}", "use os.urandom(), which draws from the seed")
        if flags & ACCESS != os.O_RDONLY and path not in _MEMORY_DEVICES:
            try:
                kind = stat.S_IFMT(REAL["stat"](path).st_mode)
            except FileNotFoundError:
                raise error(errno.EROFS) from None
            if kind not in (stat.S_IFCHR, stat.S_IFIFO):
                raise not_simulated(f"writing to {path}", "write to a file outside /dev, /proc and /sys")
        fd: int = REAL["open"](path, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
        return fd

    def open_file(self, fd: int) -> OpenFile:
        """Return the open file with this number. Raises OSError(EINVAL) for a pipe or a socket."""
        description = self.table.get(fd)
        if not isinstance(description, OpenFile):
            raise error(errno.EINVAL)
        return description

    # --- attributes ---------------------------------------------------------------------------------

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if isinstance(path, int):
            return self.fstat(path)
        return _status(self.disk, self._find(path, dir_fd, follow_symlinks), follow_symlinks)

    def lstat(self, path: Any, *, dir_fd: int | None = None) -> os.stat_result:
        return self.stat(path, dir_fd=dir_fd, follow_symlinks=False)

    def fstat(self, fd: int) -> os.stat_result:
        description = self.table.get(fd)
        if isinstance(description, OpenFile):
            return description.status()
        mode = {"pipe": stat.S_IFIFO, "socket": stat.S_IFSOCK}.get(description.kind, stat.S_IFCHR) | 0o600
        return os.stat_result((mode, fd, 0, 1, 1000, 1000, 0, 0, 0, 0))

    def access(
        self, path: Any, mode: int, *, dir_fd: int | None = None, effective_ids: bool = False,
        follow_symlinks: bool = True,
    ) -> bool:  # fmt: skip
        try:
            inode = self._find(path, dir_fd, follow_symlinks)
            if isinstance(inode, Foreign):
                return bool(REAL["access"](inode.path, mode))
            self.disk.permit(inode, mode)
        except OSError:
            return False
        return True

    def chmod(self, path: Any, mode: int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        inode = self._changeable(path, dir_fd, follow_symlinks)
        if isinstance(inode, Symlink):
            raise error(errno.EOPNOTSUPP)
        inode.permissions = mode & 0o7777
        inode.ctime = self.disk.now()

    def chown(
        self, path: Any, uid: int, gid: int, *, dir_fd: int | None = None, follow_symlinks: bool = True
    ) -> None:  # fmt: skip
        inode = self._changeable(path, dir_fd, follow_symlinks)
        if self.disk.uid != 0 and uid not in (-1, inode.uid):
            raise error(errno.EPERM)
        inode.uid = inode.uid if uid == -1 else uid
        inode.gid = inode.gid if gid == -1 else gid
        inode.ctime = self.disk.now()

    def lchown(self, path: Any, uid: int, gid: int) -> None:
        self.chown(path, uid, gid, follow_symlinks=False)

    def utime(
        self, path: Any, times: tuple[float, float] | None = None, *, ns: tuple[int, int] | None = None,
        dir_fd: int | None = None, follow_symlinks: bool = True,
    ) -> None:  # fmt: skip
        if times is not None and ns is not None:
            raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
        inode = self._changeable(path, dir_fd, follow_symlinks)
        now = self.disk.now()
        if times is not None:
            ns = (round(times[0] * 1e9), round(times[1] * 1e9))
        inode.atime, inode.mtime = ns or (now, now)
        inode.ctime = now

    def statvfs(self, path: Any) -> os.statvfs_result:
        self._find(path)
        disk = self.disk
        free = max(0, disk.size - disk.used) // PAGE
        return os.statvfs_result((PAGE, PAGE, disk.size // PAGE, free, free, 1 << 20, 1 << 20, 1 << 20, 0, 255))

    def listxattr(self, path: Any = None, *, follow_symlinks: bool = True) -> list[str]:
        self._find("." if path is None else path, follow=follow_symlinks)
        return []

    def getxattr(self, path: Any, attribute: Any, *, follow_symlinks: bool = True) -> bytes:
        self._find(path, follow=follow_symlinks)
        raise error(errno.ENODATA)

    def setxattr(self, path: Any, *_: Any, follow_symlinks: bool = True) -> None:
        self._find(path, follow=follow_symlinks)
        raise error(errno.EOPNOTSUPP)

    # --- directories --------------------------------------------------------------------------------

    def _directory(self, path: Any) -> Inode:
        inode = self._find(path)
        if not isinstance(inode, (Directory, Foreign)):
            raise error(errno.ENOTDIR)
        if isinstance(inode, Directory):
            self.disk.permit(inode, os.R_OK)
        return inode

    def listdir(self, path: Any = None) -> Any:
        inode = self._directory("." if path is None else path)
        if isinstance(inode, Foreign):
            return REAL["listdir"](os.fsencode(inode.path) if isinstance(path, bytes) else inode.path)
        assert isinstance(inode, Directory)
        names = self.disk.names(inode)
        return [os.fsencode(name) for name in names] if isinstance(os.fspath(path), bytes) else names

    def scandir(self, path: Any = None) -> Any:
        folder = "." if path is None else path if isinstance(path, int) else os.fspath(path)
        inode = self._directory(folder)
        if isinstance(inode, Foreign):
            return REAL["scandir"](os.fsencode(inode.path) if isinstance(folder, bytes) else inode.path)
        assert isinstance(inode, Directory)
        return Scan([Entry(self.disk, inode, name, folder) for name in self.disk.names(inode)])

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self.disk.make_directory(self._new_place(path, dir_fd), mode)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self.disk.remove_directory(self._new_place(path, dir_fd))

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        place = self._new_place(path, dir_fd)
        self.disk.unlink(place)
        if isinstance(place.inode, Socket):
            self.world.host.unix_names.pop(place.inode.path, None)

    def symlink(self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None) -> None:
        self.disk.make_symlink(self._new_place(dst, dir_fd), os.fsdecode(src))

    def readlink(self, path: Any, *, dir_fd: int | None = None) -> Any:
        inode = self._find(path, dir_fd, follow=False)
        if isinstance(inode, Foreign):
            return REAL["readlink"](os.fsencode(inode.path) if isinstance(path, bytes) else inode.path)
        if not isinstance(inode, Symlink):
            raise error(errno.EINVAL)
        return os.fsencode(inode.target) if isinstance(os.fspath(path), bytes) else inode.target

    def rename(self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        self.disk.rename(self._new_place(src, src_dir_fd), self._new_place(dst, dst_dir_fd))

    def link(
        self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None,
        follow_symlinks: bool = False,
    ) -> None:  # fmt: skip
        source = self._find(src, src_dir_fd, follow_symlinks)
        place = self._new_place(dst, dst_dir_fd)
        if isinstance(source, File):
            self.disk.own(source)
        self.disk.link(source, place)

    def getcwd(self) -> str:
        return self.disk.path_of(self.disk.cwd)

    def getcwdb(self) -> bytes:
        return os.fsencode(self.getcwd())

    def chdir(self, path: Any) -> None:
        inode = self._find(path)
        if not isinstance(inode, Directory):
            raise error(errno.ENOTDIR)
        self.disk.permit(inode, os.X_OK)
        self.disk.cwd = inode

    def umask(self, mask: int) -> int:
        disk = self.disk
        before, disk.umask = disk.umask, mask & 0o777
        return before

    # --- open files ---------------------------------------------------------------------------------

    def truncate(self, path: Any, length: int) -> None:
        if isinstance(path, int):
            self.ftruncate(path, length)
            return
        inode = self._find(path)
        if not isinstance(inode, File):
            raise error(errno.EISDIR if isinstance(inode, Directory) else errno.EINVAL)
        self.disk.permit(inode, os.W_OK)
        self.disk.own(inode)
        self.disk.truncate(inode, length)

    def ftruncate(self, fd: int, length: int) -> None:
        self.open_file(fd).truncate(length)

    def lseek(self, fd: int, position: int, whence: int) -> int:
        return self._positioned(fd).seek(position, whence)

    def _positioned(self, fd: int) -> OpenFile:
        description = self.table.get(fd)
        if not isinstance(description, OpenFile):
            raise error(errno.ESPIPE)
        return description

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return self._positioned(fd).read_at(length, offset)

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        return self._positioned(fd).write_at(memoryview(data).cast("B"), offset)

    def preadv(self, fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        data = self.pread(fd, sum(map(len, views)), offset)
        scatter(data, views)
        return len(data)

    def pwritev(self, fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        return self.pwrite(fd, b"".join(bytes(buffer) for buffer in buffers), offset)

    def fsync(self, fd: Any) -> None:
        opened = self.open_file(fd)
        self.world.note("fsync", opened.path)
        opened.sync()

    def sync(self) -> None:
        self.world.note("fsync", "all files")
        self.disk.sync_all()

    def posix_fallocate(self, fd: int, offset: int, length: int) -> None:
        if offset < 0 or length <= 0:
            raise error(errno.EINVAL)
        opened = self.open_file(fd)
        if opened.inode.length() < offset + length:
            opened.truncate(offset + length)

    def posix_fadvise(self, fd: int, *_: int) -> None:
        self.open_file(fd)

    def sendfile(self, out_fd: int, in_fd: int, offset: int | None, count: int, *_: Any, **__: Any) -> int:
        """A regular file to a regular file; for anything else EINVAL, and callers copy instead."""
        target = self.table.get(out_fd) if is_simulated(out_fd) else None
        if not isinstance(target, OpenFile):
            raise error(errno.EINVAL)
        if not is_simulated(in_fd):
            data = REAL["read"](in_fd, count) if offset is None else REAL["pread"](in_fd, count, offset)
        elif offset is None:
            data = self.open_file(in_fd).read(count)
        else:
            data = self.pread(in_fd, count, offset)
        return target.write(data) if data else 0

    def copy_file_range(
        self, src: int, dst: int, count: int, offset_src: int | None = None, offset_dst: int | None = None
    ) -> int:
        if offset_dst is None:
            return self.sendfile(dst, src, offset_src, count)
        if not is_simulated(src):
            raise error(errno.EXDEV)
        opened = self.open_file(src)
        data = opened.read(count) if offset_src is None else opened.read_at(count, offset_src)
        return self.pwrite(dst, data, offset_dst) if data else 0
