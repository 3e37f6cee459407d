"""The disk of a simulated host: paths, directories, files, and what a power cut leaves of them.

A power cut keeps, loses or tears each unsynced page of a file (inodes.py), and loses the last changes of directories
that were not synced (journal.py), at the tape's choice.

The real tree lies under the simulated one, read-only: names that the simulation has not changed are looked up there,
and a file is copied into the simulation before its first change. The trees of the real kernel (/proc, /sys, /dev) are
never copied.

Permissions and times survive a power cut without fsync(2): losing them finds no bug that losing data does not.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, NamedTuple

from loopcore_backends.sim.descriptors import error
from loopcore_backends.sim.files.inodes import PAGE, Choose, Directory, File, Foreign, Inode, Socket, Symlink
from loopcore_backends.sim.files.journal import Change, Journal, Step

KERNEL_TREES: Final = ("proc", "sys", "dev")
_LINKS_FOLLOWED: Final = 40
_LONGEST_NAME: Final = 255
_UMASK: Final = 0o022
_STEPS_SHOWN: Final = 4

_real_lstat, _real_listdir, _real_readlink = os.lstat, os.listdir, os.readlink
_real_open, _real_read, _real_close, _real_getcwd = os.open, os.read, os.close, os.getcwd


class Place(NamedTuple):
    """Where a path leads: a name in a directory, and what is there, if anything."""

    parent: Directory
    name: str
    inode: Inode | None
    slash: bool
    """The path ends in a slash: only a directory may be there."""


class Disk:
    """A tree of files. Thread: one at a time. Errors are OSError, without the name of the file.

    `clock` returns the wall time in nanoseconds. Content beyond `size` bytes is refused with ENOSPC.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.size = 1 << 40
        self.used = 0
        self.uid, self.gid = os.geteuid(), os.getegid()
        """Of the program; 0 may do everything, as on Linux."""
        self.umask = _UMASK
        self.lives = 0
        """How many processes have ended. A file object of an ended process writes nothing more."""
        self.fault: Callable[[str, str], int | None] | None = None
        """Called with an operation ("open", "read", "write", "sync") and a path; an errno that it returns is raised."""
        self._numbers = count(2)
        self._dirty: dict[int, File] = {}
        self._journal = Journal()
        self.root = Directory(1, 0o755, 0, 0, clock())
        self.root.real = "/"
        self.root.take(_real_lstat("/"))
        self.root.links = 1
        home = Directory(next(self._numbers), 0o755, self.uid, self.gid, clock())
        self._put(self.root, "sim", home)
        found = self.place(_real_getcwd()).inode
        self.cwd = found if isinstance(found, Directory) else home
        self._first_cwd = self.cwd

    # --- paths --------------------------------------------------------------------------------------

    def place(
        self, path: str, at: Directory | None = None, *, follow: bool = True, changing: bool = False
    ) -> Place:  # fmt: skip
        """Return where `path` leads; `follow` a symbolic link in its last component. Raises OSError.

        A missing last component is not an error. With `changing`, as for unlink(2) and rename(2), a symbolic
        link is not followed even with a slash after it.
        """
        if not path:
            raise error(errno.ENOENT)
        if "\0" in path:
            raise ValueError("embedded null byte")
        parent = here = self.root if path[0] == "/" else at or self.cwd
        rest = [part for part in reversed(path.split("/")) if part]
        slash = path[-1] == "/"
        followed = 0
        name = "."
        inode: Inode | None = here
        while rest:
            name = rest.pop()
            if isinstance(inode, Foreign):
                return Place(parent, name, Foreign("/".join([inode.path, name, *reversed(rest)])), slash)
            if not isinstance(inode, Directory):
                raise error(errno.ENOTDIR)
            here = inode
            if len(os.fsencode(name)) > _LONGEST_NAME:
                raise error(errno.ENAMETOOLONG)
            self.permit(here, os.X_OK)
            parent = here
            inode = here if name == "." else here.parent if name == ".." else self._look_up(here, name)
            if inode is None:
                if rest:
                    raise error(errno.ENOENT)
                return Place(parent, name, None, slash)
            if isinstance(inode, Symlink) and (rest or (not changing and (follow or slash))):
                followed += 1
                if followed > _LINKS_FOLLOWED:
                    raise error(errno.ELOOP)
                slash = slash or (not rest and inode.target.endswith("/"))
                rest += [part for part in reversed(inode.target.split("/")) if part]
                inode = parent = self.root if inode.target.startswith("/") else here
                name = "."
        if slash and not changing and not isinstance(inode, (Directory, Foreign)):
            raise error(errno.ENOTDIR)
        return Place(parent, name, inode, slash)

    def find(self, path: str, at: Directory | None = None, *, follow: bool = True) -> Inode:
        """Return what `path` stands for. Raises OSError(ENOENT) and the like."""
        inode = self.place(path, at, follow=follow).inode
        if inode is None:
            raise error(errno.ENOENT)
        return inode

    def path_of(self, directory: Directory) -> str:
        """Return the path of a directory. Raises OSError(ENOENT) if it was removed."""
        parts: list[str] = []
        while directory is not self.root:
            parent = directory.parent
            name = next((name for name, inode in parent.entries.items() if inode is directory), None)
            if name is None:
                raise error(errno.ENOENT)
            parts.append(name)
            directory = parent
        return "/" + "/".join(reversed(parts))

    def names(self, directory: Directory) -> list[str]:
        """Return the names in a directory, sorted: the order of a real one changes from run to run."""
        names = set(_real_listdir(directory.real)) if directory.real is not None else set()
        names |= directory.entries.keys()
        return sorted(name for name in names if directory.entries.get(name, self) is not None)

    def _look_up(self, directory: Directory, name: str) -> Inode | None:
        if name in directory.entries:
            return directory.entries[name]
        if directory.real is None:
            return None
        path = f"{directory.real.rstrip('/')}/{name}"
        inode = self._from_real(path, directory)
        if inode is not None:
            directory.entries[name] = inode
        return inode

    def _from_real(self, path: str, parent: Directory) -> Inode | None:
        if path[1:] in KERNEL_TREES:
            return Foreign(path)
        try:
            found = _real_lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        kinds: dict[int, type[File | Directory | Symlink]] = {
            stat.S_IFREG: File, stat.S_IFDIR: Directory, stat.S_IFLNK: Symlink,
        }  # fmt: skip
        kind = kinds.get(stat.S_IFMT(found.st_mode))
        if kind is None:
            return Foreign(path)
        inode = kind(0, 0, 0, 0, 0)
        inode.take(found)
        inode.real = path
        if isinstance(inode, Directory):
            inode.parent, inode.links = parent, 1
        elif isinstance(inode, File):
            inode.size = found.st_size
            inode.label = path
        elif isinstance(inode, Symlink):
            inode.target = _real_readlink(path)
        return inode

    def permit(self, inode: Inode, wanted: int) -> None:
        """Check R_OK, W_OK or X_OK. Raises PermissionError."""
        if self.uid == 0:
            if wanted & os.X_OK and not isinstance(inode, Directory) and not inode.permissions & 0o111:
                raise error(errno.EACCES)
            return
        shift = 6 if inode.uid == self.uid else 3 if inode.gid == self.gid else 0
        if wanted & ~(inode.permissions >> shift):
            raise error(errno.EACCES)

    def now(self) -> int:
        """Return the wall time in nanoseconds."""
        return self._clock()

    def check_fault(self, operation: str, path: str) -> None:
        """Raise the error that is injected here, if one is."""
        number = self.fault(operation, path) if self.fault is not None else None
        if number:
            raise error(number)

    # --- directories --------------------------------------------------------------------------------

    def _put(self, directory: Directory, name: str, inode: Inode | None) -> Inode | None:
        """Let `name` stand for `inode`, or remove it if that is None; return the inode that it stood for."""
        old = self._look_up(directory, name)
        if inode is None and directory.real is None:
            directory.entries.pop(name, None)
        else:
            directory.entries[name] = inode
        if old is not None:
            old.links -= 1
            old.ctime = self._clock()
            self._forget_if_unused(old)
        if inode is not None:
            inode.links += 1
        if isinstance(inode, Directory):
            inode.parent = directory
        directory.mtime = directory.ctime = self._clock()
        return old

    def _change(self, label: str, *changes: tuple[Directory, str, Inode | None], moves: bool = False) -> None:
        for directory, _, _ in changes:
            self.permit(directory, os.W_OK | os.X_OK)
        done = tuple([Change(directory, name, self._put(directory, name, new)) for directory, name, new in changes])
        self._journal.append(Step(done, label, moves))

    def _check_new(self, place: Place) -> None:
        if place.inode is not None:
            raise error(errno.EEXIST)
        if not place.parent.links:
            raise error(errno.ENOENT)  # the directory was removed

    def _label(self, place: Place) -> str:
        return f"{self.path_of(place.parent).rstrip('/')}/{place.name}"

    def create(self, place: Place, permissions: int) -> File:
        """Make an empty file."""
        if place.slash:
            raise error(errno.EISDIR)
        self._check_new(place)
        file = self.new_file(permissions)
        file.label = self._label(place)
        self._change(f"create {file.label}", (place.parent, place.name, file))
        return file

    def new_file(self, permissions: int) -> File:
        """Return a file without a name, as O_TMPFILE makes one."""
        return File(next(self._numbers), permissions & ~self.umask & 0o7777, self.uid, self.gid, self._clock())

    def make_directory(self, place: Place, permissions: int) -> None:
        """mkdir(2)."""
        self._check_new(place)
        mode = permissions & ~self.umask & 0o7777
        directory = Directory(next(self._numbers), mode, self.uid, self.gid, self._clock())
        self._change(f"mkdir {self._label(place)}", (place.parent, place.name, directory))

    def make_symlink(self, place: Place, target: str) -> None:
        """symlink(2)."""
        if not target or (place.slash and place.inode is None):
            raise error(errno.ENOENT)
        self._check_new(place)
        link = Symlink(next(self._numbers), 0o777, self.uid, self.gid, self._clock(), target)
        self._change(f"symlink {self._label(place)}", (place.parent, place.name, link))

    def make_socket(self, path: str) -> None:
        """bind(2) of a Unix socket. Raises OSError(EADDRINUSE) if the path exists."""
        place = self.place(path, follow=False)
        if place.inode is not None:
            raise error(errno.EADDRINUSE)
        self._check_new(place)
        inode = Socket(next(self._numbers), 0o777 & ~self.umask, self.uid, self.gid, self._clock())
        inode.path = path
        self._change(f"bind {self._label(place)}", (place.parent, place.name, inode))

    def link(self, source: Inode, place: Place) -> None:
        """link(2)."""
        if place.slash and place.inode is None:
            raise error(errno.ENOENT)
        self._check_new(place)
        if isinstance(source, Directory):
            raise error(errno.EPERM)
        source.ctime = self._clock()
        self._change(f"link {self._label(place)}", (place.parent, place.name, source))

    def unlink(self, place: Place) -> None:
        """unlink(2)."""
        if place.inode is None:
            raise error(errno.ENOENT)
        if isinstance(place.inode, Directory):
            raise error(errno.EISDIR)
        if place.slash:
            raise error(errno.ENOTDIR)
        self._change(f"unlink {self._label(place)}", (place.parent, place.name, None))

    def remove_directory(self, place: Place) -> None:
        """rmdir(2)."""
        if place.inode is None:
            raise error(errno.ENOENT)
        if place.inode is self.root:
            raise error(errno.EBUSY)
        if place.name in (".", ".."):
            raise error(errno.EINVAL if place.name == "." else errno.ENOTEMPTY)
        if not isinstance(place.inode, Directory):
            raise error(errno.ENOTDIR)
        if self.names(place.inode):
            raise error(errno.ENOTEMPTY)
        self._change(f"rmdir {self._label(place)}", (place.parent, place.name, None))

    def rename(self, source: Place, target: Place) -> None:
        """rename(2): atomic, a power cut included."""
        if source.name in (".", "..") or target.name in (".", ".."):
            raise error(errno.EBUSY)
        moved, old = source.inode, target.inode
        if moved is None:
            raise error(errno.ENOENT)
        if isinstance(moved, Directory):
            above = target.parent
            while above is not self.root:
                if above is moved:
                    raise error(errno.EINVAL)
                above = above.parent
        elif source.slash or target.slash:
            raise error(errno.ENOTDIR)
        above = source.parent
        while above is not self.root:
            if above is old:
                raise error(errno.ENOTEMPTY)
            above = above.parent
        if not target.parent.links:
            raise error(errno.ENOENT)
        if moved is old:
            return
        if isinstance(old, Directory):
            if not isinstance(moved, Directory):
                raise error(errno.EISDIR)
            if self.names(old):
                raise error(errno.ENOTEMPTY)
        elif old is not None and isinstance(moved, Directory):
            raise error(errno.ENOTDIR)
        label = self._label(target)
        text = f"rename {self._label(source)} to {label}"
        moves = isinstance(moved, Directory)
        self._change(
            text, (target.parent, target.name, moved), (source.parent, source.name, None), moves=moves
        )  # fmt: skip
        if isinstance(moved, File):
            moved.label = label

    def sync_directory(self, directory: Directory) -> None:
        """Make the entries of a directory durable, with the earlier steps that they depend on."""
        self._journal.sync(directory)

    # --- files --------------------------------------------------------------------------------------

    def own(self, file: File) -> None:
        """Copy a real file into the simulation; called before its first change."""
        if file.real is None:
            return
        fd = _real_open(file.real, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pieces = []
            while piece := _real_read(fd, 1 << 20):
                pieces.append(piece)
        finally:
            _real_close(fd)
        content = b"".join(pieces)
        file.real = None
        file.size = file.durable_size = file.lowest = len(content)
        file.durable = {i // PAGE: content[i : i + PAGE].ljust(PAGE, b"\0") for i in range(0, len(content), PAGE)}
        file.pages = {page: bytearray(piece) for page, piece in file.durable.items()}
        self.used += len(file.pages) * PAGE

    def refresh(self, inode: Inode) -> None:
        """Look again at a real file: a process outside the simulation may have changed it."""
        if isinstance(inode, File) and inode.real is not None:
            found = _real_lstat(inode.real)
            inode.take(found)
            inode.size = found.st_size

    def write(self, file: File, offset: int, content: "bytes | memoryview") -> int:
        """Write into the page cache; return how many bytes fitted. Raises OSError(ENOSPC) if none did."""
        done, size = 0, len(content)
        while done < size:
            page, start = divmod(offset + done, PAGE)
            found = file.pages.get(page)
            if found is None:
                if self.used + PAGE > self.size:
                    break
                self.used += PAGE
                found = file.pages[page] = bytearray(PAGE)
            step = min(PAGE - start, size - done)
            found[start : start + step] = content[done : done + step]
            file.dirty.add(page)
            file.failed.discard(page)
            done += step
        if size and not done:
            raise error(errno.ENOSPC)
        if done:
            file.size = max(file.size, offset + done)
            self._touch(file)
        return done

    def truncate(self, file: File, size: int) -> None:
        """Cut a file short, or extend it by a hole."""
        if size < 0:
            raise error(errno.EINVAL)
        if size < file.size:
            last, rest = divmod(size, PAGE)
            for page in [page for page in file.pages if page > last or (page == last and not rest)]:
                del file.pages[page]
                self.used -= PAGE
                file.dirty.add(page)
            if rest and last in file.pages:
                file.pages[last][rest:] = bytes(PAGE - rest)
                file.dirty.add(last)
        file.size = size
        file.lowest = min(file.lowest, size)
        self._touch(file)

    def sync(self, file: File) -> None:
        """fsync(2) of a file."""
        file.sync()
        if not file.failed:
            self._dirty.pop(id(file), None)

    def sync_all(self) -> None:
        """sync(2)."""
        for file in [*self._dirty.values()]:
            self.sync(file)
        self._journal.clear()

    def _touch(self, file: File) -> None:
        file.mtime = file.ctime = self._clock()
        self._dirty[id(file)] = file

    def closed(self, file: File) -> None:
        """Note that an open file description is gone."""
        file.opens -= 1
        self._forget_if_unused(file)

    def _forget_if_unused(self, inode: Inode) -> None:
        if isinstance(inode, File) and not inode.links and not inode.opens:
            self.used -= len(inode.pages) * PAGE

    # --- its ends -----------------------------------------------------------------------------------

    def end_process(self) -> None:
        """End the processes of the host: their file objects write nothing more. The page cache stays."""
        self.lives += 1
        self.cwd = self._first_cwd
        self.umask = _UMASK

    def power_cut(self, choose: Choose) -> None:
        """Lose what was not synced, at the tape's choice: 0 is "kept". The disk is then as after the restart."""
        self.end_process()
        for steps in self._journal.independent():
            labels = ", ".join(step.label for step in steps[-_STEPS_SHOWN:])
            lost = choose(len(steps) + 1, f"power cut, names: how many of the last changes are lost ({labels})")
            for step in reversed(steps[len(steps) - lost :]):
                for change in reversed(step.changes):
                    self._put(change.directory, change.name, change.old)
        self._journal.clear()
        files = [file for file in self._dirty.values() if file.links]
        self._dirty.clear()
        for file in files:
            file.power_cut(choose)
        self.used = 0
        for file in self._files(self.root):
            file.opens = 0
            file.locks.clear()
            self.used += len(file.pages) * PAGE

    def _files(self, top: Directory) -> Iterable[File]:
        seen: set[int] = set()
        waiting: list[Directory] = [top]
        while waiting:
            for inode in waiting.pop().entries.values():
                if isinstance(inode, Directory):
                    waiting.append(inode)
                elif isinstance(inode, File) and id(inode) not in seen:
                    seen.add(id(inode))
                    yield inode
