"""Files in threads: each call is a job of the loop's default executor. Works on every asyncio loop."""

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

from loopcore.files.descriptor import Descriptor
from loopcore.files.modes import NONBLOCK, Mode, check_kind, check_opened
from loopcore.files.port import APPEND, Progress
from loopcore.services.call import Call

HAS_PREAD = hasattr(os, "pread")
"""False on Windows: there, the descriptor's position is moved first."""


class Job:
    """A function that a thread calls, unless the job was given up before. A queued job also keeps its arguments."""

    __slots__ = ("_arguments", "_begun", "_function")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments
        self._begun = threading.Lock()

    def run(self) -> Any:
        """Call the function, unless the job was given up. Thread: the pool's."""
        return self._function(*self._arguments) if self._begun.acquire(blocking=False) else None

    def give_up(self) -> bool:
        """Return whether the function had not been called yet; then it never will be."""
        return self._begun.acquire(blocking=False)


class ThreadCall(Call):
    """A call that a thread makes. Cancelled before the thread has begun, it is never made; later, it is awaited."""

    __slots__ = ("_certain", "_inner", "_job")

    def __init__(self, loop: asyncio.AbstractEventLoop, purpose: str, job: Job, certain: bool) -> None:
        Call.__init__(self, loop, purpose)
        self._job = job
        self._certain = certain
        self._inner: asyncio.Future[Any] = loop.run_in_executor(None, job.run)
        self._inner.add_done_callback(self._land)

    def _call_off(self) -> None:
        if not self._certain and self._job.give_up():
            self._inner.cancel()
            self.end(None)

    def _land(self, inner: "asyncio.Future[Any]") -> None:
        if self.done():
            return
        if inner.cancelled():  # by a shutdown of the executor
            self._asked = True
            self.end(None)
            return
        error = inner.exception()
        self.end(None if error is not None else inner.result(), error)


class Threads:
    """The port of `loopcore.files` over `loop.run_in_executor`."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def open(self, path: str | bytes, mode: Mode) -> tuple[Descriptor, int]:
        call = self._call(None, "", False, _open, path, mode)
        try:
            descriptor, position = await call
        except asyncio.CancelledError:
            if call.outcome is not None:
                call.outcome[0].close_now()  # it was opened, but the caller will not get it
            raise
        return descriptor, position

    async def read(self, descriptor: Descriptor, limit: int, offset: int) -> bytes:
        data: bytes = await self._call(descriptor, "", False, _read, descriptor, limit, offset)
        return data

    async def write(self, descriptor: Descriptor, view: memoryview, offset: int, progress: Progress) -> None:
        await self._call(descriptor, "a write to a file", False, _write, descriptor, view, offset, progress)

    async def sync(self, descriptor: Descriptor, data_only: bool) -> None:
        await self._call(descriptor, "the sync of a file", False, _sync, descriptor, data_only)

    async def stat(self, descriptor: Descriptor) -> os.stat_result:
        result: os.stat_result = await self._call(descriptor, "", False, _stat, descriptor)
        return result

    async def stat_path(self, path: str | bytes, follow: bool) -> os.stat_result:
        result: os.stat_result = await self._call(None, "", False, _stat_path, path, follow)
        return result

    async def size(self, descriptor: Descriptor) -> int:
        size: int = await self._call(descriptor, "", False, _size, descriptor)
        return size

    async def truncate(self, descriptor: Descriptor, size: int) -> None:
        await self._call(descriptor, "the truncation of a file", False, _truncate, descriptor, size)

    async def close(self, descriptor: Descriptor) -> None:
        try:
            call = self._call(None, "the closing of a file", True, descriptor.close_now)
        except RuntimeError:  # the executor was shut down, but the file must not stay open
            descriptor.close_now()
            return
        try:
            await call
        except asyncio.CancelledError:
            descriptor.close_now()  # a shutdown of the executor may have dropped the call
            raise

    def _call(
        self, used: Descriptor | None, purpose: str, certain: bool, function: Callable[..., Any], *arguments: Any
    ) -> ThreadCall:
        call = ThreadCall(self._loop, purpose, Job(function, arguments), certain)
        call.hold(used)
        return call


# The functions that run in threads. Each holds the Descriptor, so that its number is not closed meanwhile.


def _open(path: str | bytes, mode: Mode) -> tuple[Descriptor, int]:
    kind = 0
    if not mode.creating:
        try:
            kind = os.stat(path).st_mode
        except OSError:
            pass  # opening it will report the error
        check_kind(path, kind)
    try:
        descriptor = Descriptor(os.open(path, mode.flags | NONBLOCK, mode.permissions))
    except BlockingIOError:  # another process holds a lease (fcntl(2)) and needs time to release it
        descriptor = Descriptor(os.open(path, mode.flags, mode.permissions))
    try:
        check_opened(path, descriptor.fd, kind)
        return descriptor, os.lseek(descriptor.fd, 0, os.SEEK_END) if mode.appending else 0
    except BaseException:
        descriptor.close_now()
        raise


def _read(descriptor: Descriptor, limit: int, offset: int) -> bytes:
    data = _read_once(descriptor, limit, offset)
    if not data or len(data) == limit:
        return data
    pieces = []
    got = 0
    while data:
        pieces.append(data)
        got += len(data)
        data = _read_once(descriptor, limit - got, offset + got) if got < limit else b""
    return b"".join(pieces)


def _read_once(descriptor: Descriptor, limit: int, offset: int) -> bytes:
    if HAS_PREAD:
        return os.pread(descriptor.fd, limit, offset)
    with descriptor.seeking:
        os.lseek(descriptor.fd, offset, os.SEEK_SET)
        return os.read(descriptor.fd, limit)


def _write(descriptor: Descriptor, view: memoryview, offset: int, progress: Progress) -> None:
    while progress.done < len(view):
        with view[progress.done :] as rest:
            if offset == APPEND:
                _append_once(descriptor, rest, progress)
            else:
                progress.done += _write_once(descriptor, rest, offset + progress.done)


def _append_once(descriptor: Descriptor, view: memoryview, progress: Progress) -> None:
    with descriptor.seeking:
        progress.done += os.write(descriptor.fd, view)
        progress.end = os.lseek(descriptor.fd, 0, os.SEEK_CUR)


def _write_once(descriptor: Descriptor, view: memoryview, offset: int) -> int:
    if HAS_PREAD:
        return os.pwrite(descriptor.fd, view, offset)
    with descriptor.seeking:
        os.lseek(descriptor.fd, offset, os.SEEK_SET)
        return os.write(descriptor.fd, view)


def _sync(descriptor: Descriptor, data_only: bool) -> None:
    if data_only and hasattr(os, "fdatasync"):
        os.fdatasync(descriptor.fd)
    else:
        os.fsync(descriptor.fd)


def _stat(descriptor: Descriptor) -> os.stat_result:
    return os.fstat(descriptor.fd)


def _stat_path(path: str | bytes, follow: bool) -> os.stat_result:
    return os.stat(path, follow_symlinks=follow)


def _size(descriptor: Descriptor) -> int:
    with descriptor.seeking:
        return os.lseek(descriptor.fd, 0, os.SEEK_END)


def _truncate(descriptor: Descriptor, size: int) -> None:
    os.ftruncate(descriptor.fd, size)
