"""Files through operations: each call is submitted to a completion port that has Capability.FILES. Only truncate uses a
thread: there is no operation for it."""

import asyncio
import errno
import os
import stat
from typing import Any

from loopcore.files.descriptor import Descriptor
from loopcore.files.modes import NONBLOCK, Mode, check_kind, check_opened
from loopcore.files.port import APPEND, Progress
from loopcore.files.threads import Threads
from loopcore.kernel.completions import Completions
from loopcore.ports.operations import Close, Open, Operation, Read, Stat, Sync, Write
from loopcore.services.call import OperationCall


class OpenCall(OperationCall):
    """A call whose result, a descriptor number, is owned by a Descriptor from the moment it is known."""

    __slots__ = ()

    def _take(self, result: Any) -> Descriptor:
        return Descriptor(result)


class Operated:
    """The port of `loopcore.files` over a completion port."""

    __slots__ = ("_completions", "_loop", "_threads")

    def __init__(self, loop: asyncio.AbstractEventLoop, completions: Completions) -> None:
        self._loop = loop
        self._completions = completions
        self._threads = Threads(loop)

    async def open(self, path: str | bytes, mode: Mode) -> tuple[Descriptor, int]:
        kind = 0
        if not mode.creating:
            try:
                kind = (await self.stat_path(path, True)).st_mode
            except OSError:
                pass  # opening it will report the error
            check_kind(path, kind)
        try:
            descriptor = await self._open(path, mode, NONBLOCK)
        except BlockingIOError:  # another process holds a lease (fcntl(2)) and needs time to release it
            descriptor = await self._open(path, mode, 0)
        try:
            check_opened(path, descriptor.fd, kind)
            return descriptor, await self.size(descriptor) if mode.appending else 0
        except BaseException:
            descriptor.close_now()
            raise

    async def _open(self, path: str | bytes, mode: Mode, flags: int) -> Descriptor:
        operation = Open(_encode(path), mode.flags | flags, mode.permissions)
        call = OpenCall(self._loop, "", self._completions, operation)
        try:
            descriptor: Descriptor = await call
        except OSError as exc:
            exc.filename = path
            raise
        except asyncio.CancelledError:
            if call.outcome is not None:
                call.outcome.close_now()  # it was opened, but the caller will not get it
            raise
        finally:
            del call  # an error's traceback keeps this frame, and the call keeps the error
        return descriptor

    async def read(self, descriptor: Descriptor, limit: int, offset: int) -> bytes:
        data: bytes = await self._call(descriptor, "", Read(descriptor.fd, limit, offset))
        if not data or len(data) == limit:
            return data
        pieces = []
        got = 0
        while data:
            pieces.append(data)
            got += len(data)
            rest = Read(descriptor.fd, limit - got, offset + got)
            data = await self._call(descriptor, "", rest) if got < limit else b""
        return b"".join(pieces)

    async def write(self, descriptor: Descriptor, view: memoryview, offset: int, progress: Progress) -> None:
        while progress.done < len(view):
            operation = Write(descriptor.fd, offset if offset == APPEND else offset + progress.done)
            operation.buffers = (view,)
            operation.head = progress.done
            call = self._call(descriptor, "a write to a file", operation)
            try:
                await call
            finally:
                taken = call.outcome or 0
                progress.done += taken
                if taken and offset == APPEND:
                    progress.end = os.lseek(descriptor.fd, 0, os.SEEK_CUR)  # does not block: no disk access
                del call  # as in `_open`
            if not taken:
                raise OSError(errno.EIO, "a write took nothing and reported no error")

    async def sync(self, descriptor: Descriptor, data_only: bool) -> None:
        await self._call(descriptor, "the sync of a file", Sync(descriptor.fd, data_only))

    async def stat(self, descriptor: Descriptor) -> os.stat_result:
        result: os.stat_result = await self._call(descriptor, "", Stat(descriptor.fd, None))
        return result

    async def stat_path(self, path: str | bytes, follow: bool) -> os.stat_result:
        try:
            result: os.stat_result = await self._call(None, "", Stat(-1, _encode(path), follow))
        except OSError as exc:
            exc.filename = path
            raise
        return result

    async def size(self, descriptor: Descriptor) -> int:
        found = await self.stat(descriptor)
        # For other than regular files st_size is meaningless; there lseek(2) returns at once.
        return found.st_size if stat.S_ISREG(found.st_mode) else os.lseek(descriptor.fd, 0, os.SEEK_END)

    async def truncate(self, descriptor: Descriptor, size: int) -> None:
        await self._threads.truncate(descriptor, size)

    async def close(self, descriptor: Descriptor) -> None:
        operation = Close(descriptor.fd)
        try:
            call = OperationCall(self._loop, "the closing of a file", self._completions, operation)
        except BaseException:  # the port is closed or broken, but the file must not stay open
            descriptor.close_now()
            raise
        descriptor.take()
        await call

    def _call(self, used: Descriptor | None, purpose: str, operation: Operation) -> OperationCall:
        call = OperationCall(self._loop, purpose, self._completions, operation)
        call.hold(used)
        return call


def _encode(path: str | bytes) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("embedded null byte")
    return encoded
