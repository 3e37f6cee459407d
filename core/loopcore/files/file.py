"""File: a regular file, or a file that behaves like one, read and written without blocking the loop.

The File keeps its own position, and every read and write passes its offset to the kernel. So the position is well
defined: a read that fails or is cancelled leaves it unchanged, a write leaves it after the bytes that were written.
Only in the append modes the kernel chooses where a write goes; the position is then after that write.

Calls that use the position, and calls that change or examine the whole file, take turns, first come first served.
`read_at` and `write_at` do not: any number of them runs concurrently, as with pread(2) and pwrite(2). A close
waits for all of them.

Writes are not buffered: when a write returns, the kernel has the data, so there is no flush. Only `readline` reads
ahead; a write to the File discards its buffer.

Thread: that of the loop in which the file was opened.
"""

import asyncio
import errno
import io
import operator
import os
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final

from loopcore.files.descriptor import Descriptor
from loopcore.files.modes import Mode
from loopcore.files.port import APPEND, Port, Progress
from loopcore.files.transfer import FIRST_READ, gather, put

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

LAST_POSITION: Final = 2**63 - 1


class Turn:
    """One call at a time, first come first served. Each counts as a use of the descriptor, so a close waits for it."""

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
    """An open file. Created by `loopcore.files.open`; `async with` closes it, and iterating yields its lines.

    `name` is the path passed to `open`, `mode` is spelled as by built-in `open`.
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
        self.name: str | bytes = name
        self.mode: str = mode.name
        self._loop = loop
        self._port = port
        self._descriptor = descriptor
        self._mode = mode
        self._position = position
        self._turn = Turn(descriptor)
        self._closing = False
        # Read ahead by `readline`: the bytes, and their offset in the file.
        self._ahead = b""
        self._ahead_at = 0
        self._changes = 0

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"position={self._position}"
        return f"<loopcore.files.File {self.name!r} mode={self.mode!r} {state}>"

    def __del__(self, _warn: Callable[..., object] = warnings.warn) -> None:
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

    # Attributes

    @property
    def closed(self) -> bool:
        """Whether the descriptor has been closed."""
        return self._descriptor.fd < 0

    def fileno(self) -> int:
        """Return the descriptor, which remains the File's. Its kernel position is meaningless. ValueError if closed."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._descriptor.fd

    def readable(self) -> bool:
        """Return whether the mode allows reading."""
        return self._mode.reading

    def writable(self) -> bool:
        """Return whether the mode allows writing."""
        return self._mode.writing

    def tell(self) -> int:
        """Return the position in bytes, as of the last finished call. Raises ValueError if closed."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._position

    # Reading

    async def read(self, size: int | None = -1, /) -> bytes:
        """Read `size` bytes, or to the end if `size` is -1 or None; fewer only at the end of the file, b"" there.

        A read that fails or is cancelled leaves the position unchanged: no byte is lost.
        """
        limit = self._check_reading(size)
        async with self._turn:
            data = await gather(self._port, self._descriptor, self._position, limit)
            self._position += len(data)
            return data

    async def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read into `buffer`, writable and contiguous, and return how many bytes were read.

        They are copied at the end: a call that fails or is cancelled does not touch the buffer.
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
        r"""Read up to and including the next b"\n", but at most `size` bytes unless it is negative; b"" at the end."""
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
        """Read as `read` does, but from `offset`; the position is neither used nor changed. Does not take turns."""
        limit = self._check_reading(size)
        self._check_offset(offset)
        self._descriptor.enter()
        try:
            return await gather(self._port, self._descriptor, offset, limit)
        finally:
            self._descriptor.leave()

    def blocks(self, size: int = FIRST_READ) -> "Blocks":
        """Return an asynchronous iterator over the rest of the file in blocks of `size` bytes; the last may be shorter.

        Raises ValueError if `size` is less than 1.
        """
        if size < 1:
            raise ValueError(f"a block has at least one byte, not {size}")
        self._check_reading(size)
        return Blocks(self, size)

    # Writing

    async def write(self, data: "ReadableBuffer", /) -> int:
        """Write all of `data`, a bytes-like object, at the position or, in append modes, at the end; return its length.

        If the write fails or is cancelled, the position is after the bytes that were written: a prefix of `data`,
        perhaps all of it or nothing. `data` must not be changed until then; afterwards it is no longer used.
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

    async def write_at(self, offset: int, data: "ReadableBuffer", /) -> int:
        """Write as `write` does, but at `offset`; the position is unchanged. Does not take turns.

        Raises io.UnsupportedOperation in the append modes, which write to the end whatever the offset is.
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
            self._note_change()  # again: `readline` may have read ahead meanwhile
            self._descriptor.leave()

    async def truncate(self, size: int | None = None, /) -> int:
        """Truncate the file to `size`, or extend it with zeros; None means the position. Return the new size.

        The position is unchanged. Runs in a thread on every backend.
        """
        self._check_writing()
        async with self._turn:
            self._note_change()
            wanted = self._position if size is None else size
            await self._port.truncate(self._descriptor, wanted)
            return wanted

    async def fsync(self) -> None:
        """Flush the written data and the file's metadata to disk (fsync(2))."""
        await self._sync(data_only=False)

    async def datasync(self) -> None:
        """Flush the written data to disk, and only the metadata needed to read it back (fdatasync(2))."""
        await self._sync(data_only=True)

    # Position, state, end

    async def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move the position to `offset` from the beginning, the position or the end; return it. May be past the end."""
        self._check()
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            raise ValueError(f"whence is SEEK_SET, SEEK_CUR or SEEK_END, not {whence!r}")
        offset = operator.index(offset)
        async with self._turn:
            if whence == os.SEEK_CUR:
                offset += self._position
            elif whence == os.SEEK_END:
                offset += await self._port.size(self._descriptor)
            self._check_offset(offset)
            self._position = offset
            return offset

    async def stat(self) -> os.stat_result:
        """Return the same as `os.fstat`."""
        self._check()
        async with self._turn:
            return await self._port.stat(self._descriptor)

    async def close(self) -> None:
        """Close the file when all earlier calls have ended. Raises OSError if close(2) fails.

        The descriptor is closed then, even if this is cancelled: the cancellation is raised afterwards. An error of
        close(2) that a cancellation hides goes to the loop's exception handler. A second call returns at once, also
        while the first waits.
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
            try:
                raise cancelled
            finally:
                del cancelled  # its traceback refers to this frame

    # Implementation

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
            raise OverflowError(f"{offset} is too large for a position in a file")

    def _abandon(self) -> None:
        # Calls still in flight keep the old Descriptor, and it closes the file once the last of them has ended.
        descriptor, self._descriptor = self._descriptor, Descriptor(-1)
        self._turn = Turn(self._descriptor)
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
    """The rest of a file, block by block; each block is a read at the position."""

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
