"""File: a regular file, or what behaves like one, read and written without blocking the loop.

The position is the File's own, and every read and write names its offset to the kernel. That is what makes it well
defined: a read that fails or is cancelled leaves it where it was, a write leaves it behind what was written. Only in
the append modes the kernel chooses where a write goes; the position is then behind that.

What works at the position, and what changes or looks at the whole file, takes turns in the order it was asked for.
`read_at` and `write_at` take none: any number of them runs beside the others, as pread(2) and pwrite(2) would. A close
waits for all of them.

Nothing is kept back: a write has been handed to the kernel when it returns, so there is no flush. Only `readline` reads
ahead, and what it has is dropped when the File is written to.

Thread: the loop's own, of the loop that the file was opened in.
"""

import asyncio
import errno
import io
import os
import warnings
from types import TracebackType
from typing import Any, Final

from loopcore.files.descriptor import Descriptor
from loopcore.files.modes import Mode
from loopcore.files.port import APPEND, Port, Progress
from loopcore.files.transfer import FIRST_READ, gather, put

LAST_POSITION: Final = 2**63 - 1


class Turn:
    """One at a time, in the order of asking; all of them are uses of the descriptor, so that a close waits for them."""

    __slots__ = ("_descriptor", "_lock")

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> None:
        self._descriptor.enter()
        try:
            await self._lock.acquire()
        except BaseException:
            self._descriptor.leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
        self._descriptor.leave()


class File:
    """An open file. Made by `loopcore.files.open`; `async with` closes it, and iterating gives its lines.

    `name` is the path as it was given, `mode` as built-in `open` spells it.
    """

    __slots__ = (
        "__weakref__", "_ahead", "_ahead_at", "_changes", "_closing", "_descriptor", "_loop", "_mode", "_port",
        "_position", "_turn", "mode", "name",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        port: Port,
        descriptor: Descriptor,
        name: str | bytes,
        mode: Mode,
        position: int,
    ) -> None:
        self.name = name
        self.mode = mode.name
        self._loop = loop
        self._port = port
        self._descriptor = descriptor
        self._mode = mode
        self._position = position
        self._turn = Turn(descriptor)
        self._closing = False
        # Read by `readline` and not used up: the bytes, and where in the file they begin.
        self._ahead = b""
        self._ahead_at = 0
        self._changes = 0

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"position={self._position}"
        return f"<loopcore.files.File {self.name!r} mode={self.mode!r} {state}>"

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if hasattr(self, "_descriptor") and not self.closed:
            _warn(f"unclosed file {self!r}", ResourceWarning, source=self)
            self._abandon()

    async def __aenter__(self) -> "File":
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> "File":
        return self

    async def __anext__(self) -> bytes:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    # What it is

    @property
    def closed(self) -> bool:
        """Whether the descriptor has been given up."""
        return self._descriptor.fd < 0

    def fileno(self) -> int:
        """Return the descriptor, which stays the File's; its own position means nothing. ValueError if closed."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._descriptor.fd

    def readable(self) -> bool:
        """Tell whether the mode allows reading."""
        return self._mode.reading

    def writable(self) -> bool:
        """Tell whether the mode allows writing."""
        return self._mode.writing

    def tell(self) -> int:
        """Return the position, in bytes, as the last call that has ended left it. Raises ValueError if closed."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._position

    # Reading

    async def read(self, size: int | None = -1, /) -> bytes:
        """Read `size` bytes, or to the end if that is -1 or None; fewer only at the end, b"" there.

        Cancelled or failed, the position is where it was: no byte is lost.
        """
        limit = self._check_reading(size)
        async with self._turn:
            data = await gather(self._port, self._descriptor, self._position, limit)
            self._position += len(data)
            return data

    async def readinto(self, buffer: Any, /) -> int:
        """Fill `buffer`, writable and contiguous, and return how many bytes there were.

        They are copied when they are there: the buffer is not touched by a call that fails or is cancelled.
        """
        self._check_reading(-1)
        with memoryview(buffer) as raw:
            if raw.readonly:
                raise TypeError("readinto() argument must be read-write bytes-like object")
            if not raw.nbytes:
                return 0
            with raw.cast("B") as view:
                data = await self.read(len(view))
                view[: len(data)] = data
                return len(data)

    async def readline(self, size: int | None = -1, /) -> bytes:
        r"""Read to the next b"\n" and with it, at most `size` bytes unless that is negative; b"" at the end."""
        limit = self._check_reading(-1 if size is None or size < 0 else size)
        async with self._turn:
            pieces: list[bytes] = []
            position = self._position
            while limit is None or limit > 0:
                piece = await self._line_from(position, limit)
                pieces.append(piece)
                position += len(piece)
                if limit is not None:
                    limit -= len(piece)
                if not piece or piece.endswith(b"\n"):
                    break
            self._position = position
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def read_at(self, offset: int, size: int | None = -1, /) -> bytes:
        """Read as `read` does, from `offset`, wherever the position is, and leave that alone. Waits for no turn."""
        limit = self._check_reading(size)
        self._check_offset(offset)
        self._descriptor.enter()
        try:
            return await gather(self._port, self._descriptor, offset, limit)
        finally:
            self._descriptor.leave()

    def blocks(self, size: int = FIRST_READ) -> "Blocks":
        """Return an asynchronous iterator over what follows, in blocks of `size` bytes; the last may be shorter."""
        if size < 1:
            raise ValueError(f"a block has at least one byte, not {size}")
        self._check_reading(size)
        return Blocks(self, size)

    # Writing

    async def write(self, data: Any, /) -> int:
        """Write all of `data`, bytes or alike, at the position or, in the append modes, at the end; return its length.

        Cancelled or failed, the position is behind what was written: a beginning of `data`, perhaps all or nothing.
        Until then `data` must not be changed; afterwards nobody looks at it any more.
        """
        self._check_writing()
        async with self._turn:
            self._note_change()
            offset = APPEND if self._mode.appending else self._position
            progress = Progress()
            try:
                return await put(self._port, self._descriptor, data, offset, progress)
            finally:
                if offset != APPEND:
                    self._position += progress.done
                elif progress.end is not None:
                    self._position = progress.end

    async def write_at(self, offset: int, data: Any, /) -> int:
        """Write as `write` does, to `offset`, and leave the position alone. Waits for no turn.

        Raises io.UnsupportedOperation in the append modes, which write to the end wherever one points.
        """
        self._check_writing()
        self._check_offset(offset)
        if self._mode.appending:
            raise io.UnsupportedOperation("write_at of a file that is open for appending: open it with mode 'r+b'")
        self._note_change()
        self._descriptor.enter()
        try:
            return await put(self._port, self._descriptor, data, offset, Progress())
        finally:
            self._note_change()  # once more: `readline` may have read ahead meanwhile
            self._descriptor.leave()

    async def truncate(self, size: int | None = None, /) -> int:
        """Cut the file off, or fill it up with zeros, at `size` or the position; return the new size.

        The position stays. Made in a thread on every backend.
        """
        self._check_writing()
        async with self._turn:
            self._note_change()
            wanted = self._position if size is None else size
            await self._port.truncate(self._descriptor, wanted)
            return wanted

    async def fsync(self) -> None:
        """Have what was written, and what is known of the file, put on the disk."""
        await self._sync(data_only=False)

    async def datasync(self) -> None:
        """Have what was written put on the disk, and only what is needed to read it back (fdatasync(2))."""
        await self._sync(data_only=True)

    # Position, state, end

    async def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move the position to `offset` from the beginning, the position or the end, or behind it; return it."""
        self._check()
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            raise ValueError(f"whence is SEEK_SET, SEEK_CUR or SEEK_END, not {whence!r}")
        async with self._turn:
            if whence == os.SEEK_CUR:
                offset += self._position
            elif whence == os.SEEK_END:
                offset += await self._port.size(self._descriptor)
            self._check_offset(offset)
            self._position = offset
            return offset

    async def stat(self) -> os.stat_result:
        """Return what `os.fstat` does."""
        self._check()
        async with self._turn:
            return await self._port.stat(self._descriptor)

    async def close(self) -> None:
        """Close the file when what was asked for before has ended. Idempotent. Raises OSError if the system does.

        The descriptor is gone then, also if this is cancelled: the cancellation is raised when it is. An error of
        close(2) that a cancellation hides goes to the loop's exception handler.
        """
        if self._closing or self.closed:
            return
        if self._loop.is_closed():
            self._abandon()
            return
        self._check()
        self._closing = True
        cancelled = None
        try:
            await self._descriptor.idle(self._loop)
        except asyncio.CancelledError as exc:
            cancelled = exc
        self._ahead = b""
        try:
            await self._port.close(self._descriptor)
        except OSError as exc:
            if cancelled is None:
                raise
            self._loop.call_exception_handler({"message": f"the closing of {self!r} failed", "exception": exc})
        if cancelled is not None:
            raise cancelled

    # Parts of the above

    def _check(self) -> None:
        if self._closing or self.closed:
            raise ValueError("I/O operation on closed file")
        if asyncio.get_running_loop() is self._loop:
            return
        if self._loop.is_closed():
            text = f"the event loop that {self!r} was opened in is closed; the file is closed now, open it again"
            self._abandon()
        else:
            text = f"{self!r} belongs to another event loop: use it there, or open it here as well"
        raise RuntimeError(text)

    def _check_reading(self, size: int | None) -> int | None:
        self._check()
        if not self._mode.reading:
            raise io.UnsupportedOperation("File not open for reading")
        if size is None or size == -1:
            return None
        if size < 0:
            raise ValueError("read length must be non-negative or -1")
        return size

    def _check_writing(self) -> None:
        self._check()
        if not self._mode.writing:
            raise io.UnsupportedOperation("File not open for writing")

    @staticmethod
    def _check_offset(offset: int) -> None:
        if offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if offset > LAST_POSITION:
            raise OverflowError(f"{offset} is no position in a file")

    def _abandon(self) -> None:
        # Calls that are in flight still, in threads, keep the old Descriptor: with the last of them it is closed.
        descriptor, self._descriptor = self._descriptor, Descriptor(-1)
        if not descriptor.uses:
            descriptor.close_now()

    async def _line_from(self, position: int, limit: int | None) -> bytes:
        ahead, start = self._ahead, position - self._ahead_at
        if not 0 <= start < len(ahead):
            changes = self._changes
            ahead, start = await self._port.read(self._descriptor, FIRST_READ, position), 0
            if changes == self._changes:
                self._ahead, self._ahead_at = ahead, position
        end = ahead.find(b"\n", start) + 1 or len(ahead)
        return ahead[start : end if limit is None else min(end, start + limit)]

    def _note_change(self) -> None:
        self._changes += 1
        self._ahead = b""

    async def _sync(self, data_only: bool) -> None:
        self._check()
        async with self._turn:
            await self._port.sync(self._descriptor, data_only)


class Blocks:
    """What follows in a file, block by block; a read at the position for each."""

    __slots__ = ("_file", "_size")

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size

    def __aiter__(self) -> "Blocks":
        return self

    async def __anext__(self) -> bytes:
        block = await self._file.read(self._size)
        if not block:
            raise StopAsyncIteration
        return block
