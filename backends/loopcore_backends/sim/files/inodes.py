"""What the names of a simulated disk stand for: files in pages, directories, links, and paths of the real system.

A file has a table of pages in the page cache and a second one on the medium. A write changes the first; fsync(2) copies
the changed pages to the second.
"""

import os
import stat
from collections.abc import Callable
from typing import Final

PAGE: Final = 4_096
SECTOR: Final = 512
DEVICE: Final = 0x51
"""st_dev of simulated files."""

Choose = Callable[[int, str], int]


class Inode:
    """What a name stands for. Times are in nanoseconds of the host's wall clock."""

    kind: int = 0

    def __init__(self, number: int, permissions: int, uid: int, gid: int, now: int) -> None:
        self.number = number
        self.device = DEVICE
        self.permissions = permissions
        self.uid = uid
        self.gid = gid
        self.links = 0
        self.atime = self.mtime = self.ctime = now
        self.real: str | None = None
        """The path on the real disk, while the content is still read from there."""

    def take(self, found: os.stat_result) -> None:
        """Adopt the attributes of a real file."""
        self.number, self.device, self.permissions = found.st_ino, found.st_dev, stat.S_IMODE(found.st_mode)
        self.uid, self.gid, self.links = found.st_uid, found.st_gid, found.st_nlink
        self.atime, self.mtime, self.ctime = found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns

    def length(self) -> int:
        """Return st_size."""
        return 0

    def blocks(self) -> int:
        """Return st_blocks, of 512 bytes."""
        return 0

    def status(self) -> os.stat_result:
        """Return what stat(2) reports."""
        times = (self.atime, self.mtime, self.ctime)
        seconds = tuple(each // 1_000_000_000 for each in times)
        links = self.links * 2 if isinstance(self, Directory) else self.links
        head = (self.kind | self.permissions, self.number, self.device, links, self.uid, self.gid, self.length())
        names = ("atime", "mtime", "ctime")
        more: dict[str, float] = {f"st_{name}": each / 1e9 for name, each in zip(names, times, strict=True)}
        more |= {f"st_{name}_ns": each for name, each in zip(names, times, strict=True)}
        more |= {"st_blksize": PAGE, "st_blocks": self.blocks(), "st_rdev": 0}
        return os.stat_result((*head, *seconds), more)


class File(Inode):
    """A regular file."""

    kind = stat.S_IFREG

    def __init__(self, number: int, permissions: int, uid: int, gid: int, now: int) -> None:
        super().__init__(number, permissions, uid, gid, now)
        self.size = 0
        self.pages: dict[int, bytearray] = {}
        self.dirty: set[int] = set()
        self.failed: set[int] = set()
        """Pages whose write-back failed: Linux marks them clean and never writes them again."""
        self.durable_size = 0
        self.durable: dict[int, bytes] = {}
        self.lowest = 0
        """The smallest size since the last sync."""
        self.label = ""
        """Its latest path, for people."""
        self.opens = 0
        self.locks: dict[object, bool] = {}
        """Owners of flock(2) locks; True is an exclusive one."""

    def length(self) -> int:
        return self.size

    def blocks(self) -> int:
        return len(self.pages) * (PAGE // SECTOR)

    def read(self, offset: int, size: int) -> bytes:
        """Return at most `size` bytes from `offset`; holes read as zeros."""
        end = min(offset + size, self.size)
        pieces = []
        while offset < end:
            page, start = divmod(offset, PAGE)
            step = min(PAGE - start, end - offset)
            found = self.pages.get(page)
            pieces.append(bytes(step) if found is None else bytes(found[start : start + step]))
            offset += step
        return b"".join(pieces)

    def sync(self) -> None:
        """Make the content durable."""
        for page in self.dirty:
            if page in self.pages:
                self.durable[page] = bytes(self.pages[page])
        for page in self.durable.keys() - self.pages.keys():
            del self.durable[page]
        self.dirty.clear()
        self.durable_size = self.lowest = self.size

    def fail_sync(self) -> None:
        """Make the write-back of the unsynced pages fail: later syncs succeed without writing them."""
        self.failed |= self.dirty
        self.dirty.clear()

    def power_cut(self, choose: Choose) -> None:
        """Lose, tear or keep the unsynced pages, at the tape's choice."""
        states = [(self.size, True, "keeps its size")]
        truncated = self.lowest < self.durable_size
        if truncated and self.lowest < self.size:
            states.append((self.lowest, True, "is cut short"))
        if self.size != self.durable_size or truncated:
            states.append((self.durable_size, False, "has its old size"))
        # A label says what may happen, so it does not depend on what is chosen.
        texts = ", or ".join(text for _, _, text in states)
        size, kept, _ = states[choose(len(states), f"power cut, sizes: {self.label} {texts}") if len(states) > 1 else 0]
        floor = self.lowest if truncated else max(self.size, self.durable_size)
        pages: dict[int, bytes] = {}
        for page in sorted(self.durable.keys() | self.pages.keys()):
            if page * PAGE >= size:
                break
            old = self.durable.get(page, b"")
            if kept and truncated:
                old = old[: max(0, floor - page * PAGE)]  # its blocks were freed
            old = old.ljust(PAGE, b"\0")
            new = bytes(self.pages.get(page, bytes(PAGE)))
            if page in self.failed or (not kept and page * PAGE >= floor):
                new = old
            elif page in self.dirty and new != old:
                new = self._torn(choose, page, old, new)
            rest = size - page * PAGE
            pages[page] = (new[:rest] if rest < PAGE else new).ljust(PAGE, b"\0")
        self.size = self.durable_size = self.lowest = size
        self.durable = pages
        self.pages = {page: bytearray(content) for page, content in pages.items()}
        self.dirty.clear()
        self.failed.clear()

    def _torn(self, choose: Choose, page: int, old: bytes, new: bytes) -> bytes:
        name = f"page {page} of {self.label}"
        how = choose(3, f"power cut, pages: {name} is kept, lost or torn")
        if how == 0:
            return new
        if how == 1:
            return old
        sectors = PAGE // SECTOR
        lost = choose((1 << sectors) - 2, f"power cut, sectors: which of {name} are lost") + 1
        return b"".join(
            (old if lost >> i & 1 else new)[i * SECTOR : (i + 1) * SECTOR] for i in range(sectors)
        )  # fmt: skip


class Symlink(Inode):
    """A symbolic link."""

    kind = stat.S_IFLNK

    def __init__(self, number: int, permissions: int, uid: int, gid: int, now: int, target: str = "") -> None:
        super().__init__(number, permissions, uid, gid, now)
        self.target = target

    def length(self) -> int:
        return len(os.fsencode(self.target))


class Socket(Inode):
    """The name of a Unix socket, bound as `path`."""

    kind = stat.S_IFSOCK
    path = ""


class Directory(Inode):
    """A directory. None among the entries hides a name of the real directory."""

    kind = stat.S_IFDIR

    def __init__(self, number: int, permissions: int, uid: int, gid: int, now: int) -> None:
        super().__init__(number, permissions, uid, gid, now)
        self.parent: Directory = self
        self.entries: dict[str, Inode | None] = {}

    def length(self) -> int:
        return PAGE


class Foreign(Inode):
    """A path in a tree of the real kernel, or a real device, socket or FIFO: only the real system knows it."""

    def __init__(self, path: str) -> None:
        super().__init__(0, 0, 0, 0, 0)
        self.path = path
