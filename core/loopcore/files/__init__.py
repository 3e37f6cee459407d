"""Files, read and written without blocking the loop.

    async with files.open("notes.txt", "rb") as file:
        async for line in file: ...

Over a completion port with Capability.FILES (io_uring) the kernel does the work, without threads; on every other loop,
including asyncio's own, the loop's default executor does. There is no other difference between the two.

Bytes only, and only files that have a position: for pipes and terminals use `loop.connect_read_pipe` and
`loop.connect_write_pipe`. Modes, results and errors are those of built-in `open`, buffered: a read is short only at
the end, a write writes everything. Cancellation: docs/reference/files.md.

Thread: the running loop's.

Imports services and what is below them, no transport.
"""

import asyncio
import os
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from loopcore.files.file import Blocks, File
from loopcore.files.modes import Mode, parse
from loopcore.files.operated import Operated
from loopcore.files.port import Port
from loopcore.files.threads import Threads
from loopcore.ports.readiness import Capability

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["Blocks", "File", "Opening", "open", "read_bytes", "stat", "write_bytes"]

Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Opening:
    """The result of `open`: `await` it for the File, or use it in `async with`, which closes the File at the end."""

    __slots__ = ("_file", "_is_entered", "_mode", "_path")

    def __init__(self, path: Path, mode: Mode) -> None:
        self._path: str | bytes = os.fspath(path)
        if ("\0" if isinstance(self._path, str) else b"\0") in self._path:  # type: ignore[operator]
            raise ValueError("embedded null byte")
        self._mode = mode
        self._file: File | None = None
        self._is_entered = False

    def __await__(self) -> Generator[Any, None, File]:
        return self._open().__await__()

    async def __aenter__(self) -> File:
        if self._is_entered:
            raise RuntimeError("this is in use already; call open() again for each `async with`")
        self._is_entered = True
        try:
            self._file = await self._open()
        except BaseException:
            self._is_entered = False
            raise
        return self._file

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        file, self._file, self._is_entered = self._file, None, False
        if file is not None:
            await file.close()

    async def _open(self) -> File:
        loop = asyncio.get_running_loop()
        port = _port_of(loop)
        descriptor, position = await port.open(self._path, self._mode)
        return File(loop, port, descriptor, self._path, self._mode, position)


def open(path: Path, mode: str = "rb") -> Opening:  # noqa: A001 - the right name for it
    """Open the file `path`: `await` the result, or use it in `async with`.

    `mode` is a binary mode of built-in `open`: "b" with one of "r", "w", "x", "a", and optionally "+". Raises
    ValueError for any other mode, OSError with the file's name if it cannot be opened, io.UnsupportedOperation (an
    OSError) for a file without a position. If this is cancelled, nothing is left open; the file may have been created,
    or truncated, by then.
    """
    return Opening(path, parse(mode))


async def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
    """Return the same as `os.stat`. Raises OSError with the file's name."""
    return await _port_of(asyncio.get_running_loop()).stat_path(os.fspath(path), follow_symlinks)


async def read_bytes(path: Path) -> bytes:
    """Return the contents of the file `path`."""
    async with open(path, "rb") as file:
        return await file.read()


async def write_bytes(path: Path, data: "ReadableBuffer") -> int:
    """Write `data` to the file `path`, which is created or truncated first; return the number of bytes."""
    memoryview(data).release()  # data that cannot be written must not truncate the file
    async with open(path, "wb") as file:
        return await file.write(data)


def _port_of(loop: asyncio.AbstractEventLoop) -> Port:
    completions = getattr(loop, "_completions", None)
    if completions is not None and Capability.FILES in completions.backend.capabilities:
        return Operated(loop, completions)
    return Threads(loop)
