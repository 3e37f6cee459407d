"""Cancelling: nothing is in flight when CancelledError comes, and position, buffer and descriptor are as promised."""

import asyncio
import concurrent.futures
import errno
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopcore import files
from loopcore.files import threads
from loopcore.ports import operations as ops
from tests.unit.files.port import FilesPort

Loop = asyncio.AbstractEventLoop
Until = Callable[..., None]


def named(*names: str) -> Callable[[ops.Operation], bool]:
    return lambda operation: ops.NAMES[operation.code] in names


def write_to(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


async def cancel(task: "asyncio.Task[Any]") -> None:
    """Cancel, and see that the task ends by it."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture
def loop(port_loop: Loop) -> Loop:
    return port_loop


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_to(tmp_path / "file", b"0123456789")


@pytest.mark.parametrize("heeds_cancel", [True, False], ids=["ends early", "is done anyway"])
async def test_a_cancelled_read_loses_no_byte(port: FilesPort, path: Path, heeds_cancel: bool) -> None:
    port.heeds_cancel = heeds_cancel
    async with files.open(path) as file:
        assert await file.read(2) == b"01"
        port.hold = named("READ")
        task = asyncio.create_task(file.read(4))
        await asyncio.sleep(0)
        assert port.in_flight() == ["READ"]
        await cancel(task)
        assert port.in_flight() == []
        port.hold = named()
        assert file.tell() == 2
        assert await file.read() == b"23456789"
    assert port.cancels == ["READ"]


async def test_cancelling_waits_until_the_kernel_lets_go(port: FilesPort, path: Path) -> None:
    async with files.open(path, "wb") as file:
        port.hold = named("WRITE")
        port.cancel = lambda operation: None  # type: ignore[method-assign]  # the disk is at work
        buffer = bytearray(b"abc")
        task = asyncio.create_task(file.write(buffer))
        await asyncio.sleep(0)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        with pytest.raises(BufferError):
            buffer.append(0)
        port.let_go()
        with pytest.raises(asyncio.CancelledError):
            await task
        buffer.append(0)  # nobody looks at it any more
        assert file.tell() == 3
    assert path.read_bytes() == b"abc"


@pytest.mark.parametrize("mode", ["r+b", "ab"])
async def test_the_position_tells_how_much_a_cancelled_write_wrote(port: FilesPort, path: Path, mode: str) -> None:
    port.most = 3
    start = 10 if mode == "ab" else 0
    async with files.open(path, mode) as file:
        port.hold = lambda operation: isinstance(operation, ops.Write) and operation.head == 6
        task = asyncio.create_task(file.write(b"abcdefgh"))
        while port.log.count("WRITE") < 2:
            await asyncio.sleep(0)
        await cancel(task)
        assert file.tell() == start + 6
        port.hold = named()
        assert await file.write(b"XYZ") == 3
        assert file.tell() == start + 9
    assert path.read_bytes() == (b"0123456789abcdefXYZ" if mode == "ab" else b"abcdefXYZ9")


async def test_a_failed_write_leaves_the_position_behind_what_it_wrote(port: FilesPort, path: Path) -> None:
    port.most = 4
    async with files.open(path, "r+b") as file:
        port.fail = lambda operation: errno.ENOSPC if isinstance(operation, ops.Write) and operation.head else 0
        with pytest.raises(OSError, match="No space left"):
            await file.write(b"abcdefgh")
        assert file.tell() == 4
    assert path.read_bytes() == b"abcd456789"


async def test_a_write_that_takes_nothing_is_an_error(port: FilesPort, path: Path) -> None:
    port.most = 0
    async with files.open(path, "r+b") as file:
        with pytest.raises(OSError, match="took nothing"):
            await file.write(b"abc")


@pytest.mark.reports_errors
async def test_an_error_of_a_cancelled_write_is_reported(loop: Loop, port: FilesPort, path: Path) -> None:
    port.heeds_cancel = False
    port.fail = lambda operation: errno.EIO if isinstance(operation, (ops.Write, ops.Sync)) else 0
    reports: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reports.append(context))
    async with files.open(path, "r+b") as file:
        for start in (lambda: file.write(b"abc"), file.fsync):
            port.hold = named("WRITE", "SYNC")
            task = asyncio.create_task(start())
            await asyncio.sleep(0)
            await cancel(task)
            port.hold = named()
    assert [report["exception"].errno for report in reports] == [errno.EIO, errno.EIO]
    assert [report["message"].split(" failed")[0] for report in reports] == ["a write to a file", "the sync of a file"]


async def test_who_waits_for_a_turn_can_be_cancelled(port: FilesPort, path: Path) -> None:
    async with files.open(path) as file:
        port.hold = named("READ")
        first, second, third = (asyncio.create_task(file.read(2)) for _ in range(3))
        await asyncio.sleep(0)
        await cancel(second)
        port.let_go()
        assert [await first, await third] == [b"01", b"23"]


@pytest.mark.skipif(sys.platform != "linux", reason="lists descriptors in /proc")
@pytest.mark.parametrize("heeds_cancel", [True, False], ids=["ends early", "is done anyway"])
async def test_a_cancelled_open_leaves_nothing_open(port: FilesPort, path: Path, heeds_cancel: bool) -> None:
    port.heeds_cancel = heeds_cancel
    before = os.listdir("/proc/self/fd")
    for name in ("STAT", "OPEN"):
        port.hold = named(name)
        task = asyncio.create_task(files.open(path)._open())
        while port.in_flight() != [name]:
            await asyncio.sleep(0)
        await cancel(task)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.skipif(sys.platform != "linux", reason="lists descriptors in /proc")
async def test_cancelled_in_the_tick_in_which_it_was_opened(loop: Loop, port: FilesPort, path: Path) -> None:
    before = os.listdir("/proc/self/fd")

    def cancel_later(operation: ops.Operation) -> int:
        if isinstance(operation, ops.Open):
            # After the completions of this tick, and before the task has run that they wake.
            loop.call_immediate(task.cancel)  # type: ignore[attr-defined]
        return 0

    port.fail = cancel_later
    task = loop.create_task(files.open(path)._open())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert port.cancels == []
    assert "OPEN" in port.log
    assert os.listdir("/proc/self/fd") == before


async def test_a_cancelled_close_leaves_no_reference_cycle(port: FilesPort, path: Path) -> None:
    file = await files.open(path)
    port.hold = named("READ")
    reading = asyncio.create_task(file.read())
    await asyncio.sleep(0)
    closing = asyncio.create_task(file.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.sleep(0)
    port.let_go()
    await asyncio.wait([reading, closing])
    assert closing.cancelled()
    freed = weakref.ref(file)
    gc.disable()
    try:
        del file, reading, closing
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("waits_for", ["READ", "CLOSE"])
async def test_a_cancelled_close_closes(port: FilesPort, path: Path, waits_for: str) -> None:
    file = await files.open(path)
    number = file.fileno()
    port.hold = named(waits_for)
    reading = asyncio.create_task(file.read() if waits_for == "READ" else asyncio.sleep(0))
    await asyncio.sleep(0)
    closing = asyncio.create_task(file.close())
    while port.in_flight() != [waits_for]:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.sleep(0)
    assert not closing.done()
    port.let_go()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await reading
    assert file.closed
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> "Gate":
    return Gate(monkeypatch)


class Gate:
    """Holds threads up on their way into a function of `loopcore.files.threads`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.entered, self.open = threading.Event(), threading.Event()

    def close(self, name: str) -> None:
        behind = getattr(threads, name)

        def wait(*arguments: Any) -> Any:
            self.entered.set()
            assert self.open.wait(10.0)
            return behind(*arguments)

        self._monkeypatch.setattr(threads, name, wait)

    async def reached(self) -> None:
        while not self.entered.is_set():
            await asyncio.sleep(0)


def test_a_cancelled_read_in_a_thread_is_waited_for(thread_loop: Loop, gate: Gate, path: Path) -> None:
    async def main() -> None:
        async with files.open(path) as file:
            gate.close("_read")
            task = asyncio.create_task(file.read(4))
            await gate.reached()
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
            gate.open.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert file.tell() == 0
            assert await file.read() == b"0123456789"

    thread_loop.run_until_complete(main())


def test_a_cancelled_write_in_a_thread_says_what_it_wrote(thread_loop: Loop, gate: Gate, path: Path) -> None:
    async def main() -> None:
        async with files.open(path, "r+b") as file:
            gate.close("_write")
            buffer = bytearray(b"abc")
            task = asyncio.create_task(file.write(buffer))
            await gate.reached()
            task.cancel()
            await asyncio.sleep(0)
            with pytest.raises(BufferError):
                buffer.clear()
            gate.open.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            buffer.clear()
            assert file.tell() == 3

    thread_loop.run_until_complete(main())
    assert path.read_bytes() == b"abc3456789"


@pytest.mark.skipif(sys.platform != "linux", reason="lists descriptors in /proc")
def test_a_cancelled_open_in_a_thread_leaves_nothing_open(thread_loop: Loop, gate: Gate, path: Path) -> None:
    async def main() -> None:
        gate.close("_open")
        task = asyncio.create_task(files.open(path)._open())
        await gate.reached()
        before = os.listdir("/proc/self/fd")
        task.cancel()
        gate.open.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert os.listdir("/proc/self/fd") == before

    thread_loop.run_until_complete(main())


def test_what_no_thread_has_begun_ends_at_once_and_is_never_begun(thread_loop: Loop, gate: Gate, path: Path) -> None:
    thread_loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(1))

    async def main() -> None:
        async with files.open(path, "r+b") as file:
            gate.close("_read_once")
            reading = asyncio.create_task(file.read_at(0, 5))
            await gate.reached()
            writing = asyncio.create_task(file.write_at(0, b"never"))
            await asyncio.sleep(0)
            await cancel(writing)  # while the only thread is busy
            assert not reading.done()
            gate.open.set()
            assert await reading == b"01234"

    thread_loop.run_until_complete(main())
    assert path.read_bytes() == b"0123456789"


def test_a_coroutine_that_is_thrown_away_keeps_its_buffer_from_harm(
    loop: Loop, port: FilesPort, path: Path, until: Until
) -> None:
    buffer = bytearray(b"abc")
    file = loop.run_until_complete(files.open(path, "r+b")._open())
    port.hold = named("WRITE")

    async def main() -> None:
        coroutine = file.write(buffer)
        coroutine.send(None)
        coroutine.close()
        with pytest.raises(BufferError):
            buffer.append(0)
        closing = asyncio.create_task(file.close())
        await asyncio.sleep(0)
        assert not file.closed
        port.let_go()
        await closing

    loop.run_until_complete(main())
    assert path.read_bytes() == b"abc3456789"
    buffer.append(0)
