"""Open files: positions, modes of access and flock(2) locks, over the inodes of a disk."""

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from loopcore.ports.interest import READ, WRITE
from loopcore_backends.sim.descriptors import Description, error
from loopcore_backends.sim.files.disk import Disk
from loopcore_backends.sim.files.inodes import Directory, File, Inode, Socket, Symlink

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host

ACCESS: Final = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
_SYNCED: Final = os.O_SYNC | os.O_DSYNC


class OpenFile(Description):
    """An open file or directory. Every call returns at once."""

    kind = "regular file"

    def __init__(self, host: "Host", disk: Disk, inode: File | Directory, flags: int, path: str) -> None:
        super().__init__(host)
        self.disk = disk
        self.inode = inode
        self.flags = flags
        self.path = path
        self.position = 0
        self.life = disk.lives
        if isinstance(inode, File):
            inode.opens += 1

    def poll(self) -> int:
        return READ | WRITE

    def close(self) -> None:
        if isinstance(self.inode, File):
            self.unlock()
            self.disk.closed(self.inode)

    # --- reading and writing ------------------------------------------------------------------------

    def read(self, size: int) -> bytes:
        data = self.read_at(size, self.position)
        self.position += len(data)
        return data

    def write(self, data: "bytes | memoryview") -> int:
        file = self._file(os.O_WRONLY)
        if self.flags & os.O_APPEND and len(data):
            self.position = file.size
        taken = self.write_at(data, self.position)
        self.position += taken
        return taken

    def read_at(self, size: int, offset: int) -> bytes:
        """pread(2)."""
        file = self._file(os.O_RDONLY)
        if size < 0 or offset < 0:
            raise error(errno.EINVAL)
        self.disk.check_fault("read", self.path)
        self.disk.own(file)
        return file.read(offset, size)

    def write_at(self, data: "bytes | memoryview", offset: int) -> int:
        """pwrite(2): with O_APPEND it appends, on Linux."""
        file = self._file(os.O_WRONLY)
        if offset < 0:
            raise error(errno.EINVAL)
        self.disk.check_fault("write", self.path)
        taken = self.disk.write(file, file.size if self.flags & os.O_APPEND else offset, data)
        if self.flags & _SYNCED:
            self.disk.sync(file)
        return taken

    def seek(self, offset: int, whence: int) -> int:
        """lseek(2)."""
        size = self.inode.length()
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):  # as on a file system that knows of no holes
            if not 0 <= offset < size:
                raise error(errno.ENXIO)
            position = offset if whence == os.SEEK_DATA else size
        elif whence in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: size}[whence]
        else:
            raise error(errno.EINVAL)
        if position < 0:
            raise error(errno.EINVAL)
        self.position = position
        return position

    def truncate(self, size: int) -> None:
        """ftruncate(2)."""
        if not isinstance(self.inode, File) or self.flags & ACCESS == os.O_RDONLY:
            raise error(errno.EINVAL)
        self.disk.truncate(self.inode, size)

    def sync(self) -> None:
        """fsync(2) of a file's content, or of a directory's entries. After a failure, another call does not repair."""
        try:
            self.disk.check_fault("sync", self.path)
        except OSError:
            if isinstance(self.inode, File):
                self.inode.fail_sync()
            raise
        if isinstance(self.inode, File):
            self.disk.sync(self.inode)
        else:
            self.disk.sync_directory(self.inode)

    def status(self) -> os.stat_result:
        """fstat(2)."""
        return self.inode.status()

    def _file(self, access: int) -> File:
        if self.flags & ACCESS not in (access, os.O_RDWR):
            raise error(errno.EBADF)
        if not isinstance(self.inode, File):
            raise error(errno.EISDIR)
        return self.inode

    # --- flock --------------------------------------------------------------------------------------

    def can_lock(self, exclusive: bool) -> bool:
        """Return whether no other open file has a lock that excludes this one."""
        assert isinstance(self.inode, File)
        others = [held for owner, held in self.inode.locks.items() if owner is not self]
        return not others or not (exclusive or any(others))

    def lock(self, exclusive: bool, wait: Callable[[Callable[[], bool]], object] | None) -> None:
        """flock(2). `wait` blocks until a condition holds; without it, BlockingIOError."""
        if not isinstance(self.inode, File):
            return
        self.inode.locks.pop(self, None)  # a conversion is not atomic, on Linux
        while not self.can_lock(exclusive):
            if wait is None:
                raise error(errno.EAGAIN)
            wait(lambda: self.can_lock(exclusive))
        self.inode.locks[self] = exclusive

    def unlock(self) -> None:
        """Release the lock, if there is one."""
        if isinstance(self.inode, File):
            self.inode.locks.pop(self, None)


def open_inode(disk: Disk, path: str, flags: int, mode: int, at: Directory | None) -> tuple[Inode, str]:
    """Do what open(2) does with the tree; return the inode, and its path for messages. Raises OSError."""
    disk.check_fault("open", path)
    access = flags & ACCESS
    creating = bool(flags & os.O_CREAT)
    exclusive = creating and bool(flags & os.O_EXCL)
    temporary = getattr(os, "O_TMPFILE", 0)
    if creating and path.endswith("/") and disk.place(path, at, changing=True).name not in (".", ".."):
        raise error(errno.EISDIR)
    place = disk.place(path, at, follow=not (exclusive or flags & os.O_NOFOLLOW))
    inode = place.inode
    if temporary and flags & temporary == temporary:
        if not isinstance(inode, Directory):
            raise error(errno.ENOENT if inode is None else errno.ENOTDIR)
        if access == os.O_RDONLY:
            raise error(errno.EINVAL)
        return disk.new_file(mode), path
    if inode is None:
        if not creating:
            raise error(errno.ENOENT)
        return disk.create(place, mode), path
    if exclusive:
        raise error(errno.EEXIST)
    if isinstance(inode, Directory):
        if access != os.O_RDONLY or creating:
            raise error(errno.EISDIR)
    elif flags & os.O_DIRECTORY:
        raise error(errno.ENOTDIR)
    elif not isinstance(inode, File):
        if isinstance(inode, Symlink):
            raise error(errno.ELOOP)  # and O_NOFOLLOW
        if isinstance(inode, Socket):
            raise error(errno.ENXIO)
        return inode, path
    if access != os.O_WRONLY:
        disk.permit(inode, os.R_OK)
    if access != os.O_RDONLY:
        disk.permit(inode, os.W_OK)
    if isinstance(inode, File) and (access != os.O_RDONLY or flags & os.O_TRUNC):
        disk.own(inode)
        if flags & os.O_TRUNC and inode.size:
            disk.truncate(inode, 0)
    return inode, path
