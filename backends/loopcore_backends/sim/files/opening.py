"""`open` and io.FileIO over simulated descriptors. The layers above (buffers, text) are Python's own."""

import errno
import io
import os
import stat
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loopcore.ports.interest import READ, WRITE
from loopcore_backends.sim.descriptors import error, is_simulated, retry
from loopcore_backends.sim.files.descriptor import OpenFile
from loopcore_backends.sim.files.system import Files

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World

_real_open = io.open
_RealFileIO = io.FileIO
_BUFFER = io.DEFAULT_BUFFER_SIZE
_PIECE = 65_536


class _FlagsKnownError(Exception):
    """Carries the flags of open(2) out of the real `open`, which has checked the arguments by then."""


class RawFile(io.RawIOBase):
    """What io.FileIO is for a real descriptor."""

    _fd = -1
    name: Any = None

    def __init__(self, world: "World", fd: int, mode: str, closefd: bool, name: Any) -> None:
        self._world = world
        self._description = world.descriptors.get(fd)
        self._fd = fd
        self._closefd = closefd
        self._readable = "r" in mode or "+" in mode
        self._writable = "r" not in mode or "+" in mode
        letter = next(letter for letter in "xawr" if letter in mode)
        plus = "+" if "+" in mode else ""
        # Before 3.15 a file object does not remember that it was opened with "w+".
        self.mode = f"{'r' if plus and letter == 'w' and sys.version_info < (3, 15) else letter}b{plus}"
        self.name = name
        opened = self._description
        if isinstance(opened, OpenFile):
            if stat.S_ISDIR(opened.status().st_mode):
                self._fd = -1
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
            if letter == "a":
                opened.seek(0, os.SEEK_END)

    @property
    def closefd(self) -> bool:
        """Whether closing the object closes the descriptor."""
        return self._closefd

    def __repr__(self) -> str:
        if self._fd < 0:
            return "<_io.FileIO [closed]>"
        return f"<_io.FileIO name={self.name!r} mode={self.mode!r} closefd={self._closefd}>"

    def _checked(self) -> Any:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        # A number that was closed under this object may belong to another file by now.
        if self._world.descriptors.get(self._fd) is not self._description:
            raise error(errno.EBADF)
        return self._description

    def _is_of_dead_process(self) -> bool:
        opened = self._description
        return isinstance(opened, OpenFile) and opened.life != opened.disk.lives

    def readable(self) -> bool:
        self._check_open()
        return self._readable

    def writable(self) -> bool:
        self._check_open()
        return self._writable

    def seekable(self) -> bool:
        self._check_open()
        return isinstance(self._description, OpenFile)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def fileno(self) -> int:
        self._check_open()
        return self._fd

    def isatty(self) -> bool:
        self._check_open()
        return False

    def readinto(self, buffer: Any) -> Any:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        if data is None:
            return None
        view[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> Any:
        if size is None or size < 0:
            return self.readall()
        description = self._checked()
        if not self._readable:
            raise io.UnsupportedOperation("File not open for reading")
        try:
            return retry(self._world, description, lambda: description.read(size), READ)
        except BlockingIOError:
            return None

    def readall(self) -> Any:
        pieces = []
        while piece := self.read(_PIECE):
            pieces.append(piece)
        return None if piece is None and not pieces else b"".join(pieces)

    def write(self, data: Any) -> Any:
        if not self.closed and self._is_of_dead_process():
            return memoryview(data).nbytes
        description = self._checked()
        if not self._writable:
            raise io.UnsupportedOperation("File not open for writing")
        view = memoryview(data).cast("B")
        try:
            return retry(self._world, description, lambda: description.write(view), WRITE)
        except BlockingIOError:
            return None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if not self.closed and self._is_of_dead_process():
            return 0
        return Files(self._world).lseek(self._number(), offset, whence)

    def tell(self) -> int:
        return self.seek(0, os.SEEK_CUR)

    def truncate(self, size: int | None = None) -> int:
        fd = self._number()
        if not self._writable:
            raise io.UnsupportedOperation("File not open for writing")
        size = self.tell() if size is None else size
        Files(self._world).ftruncate(fd, size)
        return size

    def _number(self) -> int:
        self._checked()
        return self._fd

    def close(self) -> None:
        if self.closed:
            return
        if getattr(self, "_finalizing", False):
            self._dealloc_warn(self)
        try:
            super().close()
        finally:
            fd, self._fd = self._fd, -1
            if self._closefd and fd >= 0 and not self._is_of_dead_process():
                if self._world.descriptors.get(fd) is not self._description:
                    raise error(errno.EBADF)
                self._world.descriptors.close(fd)

    def _dealloc_warn(self, source: object) -> None:
        # The buffers and the text layer call it when they are collected before they are closed.
        if self._fd >= 0 and self._closefd and not self._is_of_dead_process():
            warnings.warn(f"unclosed file {source!r}", ResourceWarning, stacklevel=2, source=source)


class Openings:
    """`open` and `FileIO` of one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._files = Files(world)

    def open(
        self, file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: str | None = None,
        newline: str | None = None, closefd: bool = True, opener: Callable[[Any, int], int] | None = None,
    ) -> Any:  # fmt: skip
        arguments = (mode, buffering, encoding, errors, newline)
        if not isinstance(file, int):
            file = os.fspath(file)  # the file's name is a str or bytes
        if isinstance(file, int) and not is_simulated(file):
            return _real_open(file, *arguments, closefd, opener)
        flags = _flags(_real_open, "." if isinstance(file, int) else file, *arguments, closefd or isinstance(file, int))
        fd = file if isinstance(file, int) else self._descriptor(file, flags, opener)
        if not is_simulated(fd):
            return _real_open(file, *arguments, closefd, lambda _path, _flags: fd)
        raw = self._raw(fd, mode, closefd, file)
        try:
            return _layers(raw, *arguments)
        except BaseException:
            raw.close()
            raise

    def new_file_io(self, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None) -> Any:
        """Do what the constructor of io.FileIO does."""
        if isinstance(file, int) and not is_simulated(file):
            return _RealFileIO(file, mode, closefd, opener)
        flags = _flags(_RealFileIO, "." if isinstance(file, int) else file, mode, closefd or isinstance(file, int))
        fd = file if isinstance(file, int) else self._descriptor(file, flags, opener)
        if not is_simulated(fd):
            return _RealFileIO(file, mode, closefd, lambda _path, _flags: fd)
        return self._raw(fd, mode, closefd, file)

    def _descriptor(self, file: Any, flags: int, opener: Callable[[Any, int], int] | None) -> int:
        if opener is None:
            try:
                return self._files.open(file, flags, 0o666)
            except OSError as exc:
                raise OSError(exc.errno, exc.strerror, file) from None
        fd = opener(file, flags)
        if not isinstance(fd, int):
            raise TypeError("expected integer from opener")
        if fd < 0:
            raise ValueError(f"opener returned {fd}")
        return fd

    def _raw(self, fd: int, mode: str, closefd: bool, file: Any) -> RawFile:
        try:
            return RawFile(self._world, fd, mode, closefd, file)
        except IsADirectoryError:
            if not isinstance(file, int):
                self._world.descriptors.close(fd)
            raise

    def file_io_class(self) -> type:
        """Return what stands for io.FileIO: instances of the real class are its instances."""
        openings = self

        class Meta(type(io.RawIOBase)):  # type: ignore[misc]
            def __instancecheck__(cls, instance: object) -> bool:
                return isinstance(instance, (RawFile, _RealFileIO))

        class FileIO(io.RawIOBase, metaclass=Meta):
            def __new__(cls, *args: Any, **kwargs: Any) -> Any:
                return openings.new_file_io(*args, **kwargs)

        return FileIO


def _flags(opened_by: Callable[..., Any], file: Any, *arguments: Any) -> int:
    """Return the flags for open(2), and have Python check the arguments: nothing is opened."""

    def report(_path: object, flags: int) -> int:
        raise _FlagsKnownError(flags)

    try:
        opened_by(file, *arguments, report)
    except _FlagsKnownError as known:
        flags: int = known.args[0]
        return flags
    raise TypeError(f"cannot open {file!r}")


def _layers(
    raw: RawFile, mode: str, buffering: int, encoding: str | None, errors: str | None, newline: str | None
) -> Any:  # fmt: skip
    binary = "b" in mode
    if binary and buffering == 0:
        return raw
    size = buffering if buffering > 1 else _BUFFER
    kind = io.BufferedRandom if "+" in mode else io.BufferedReader if "r" in mode else io.BufferedWriter
    buffer: Any = kind(raw, size)
    if binary:
        return buffer
    text = io.TextIOWrapper(buffer, io.text_encoding(encoding), errors, newline, line_buffering=buffering == 1)
    text.mode = mode  # type: ignore[misc]
    return text
