"""A File from its opening to its end: turns, closing, being dropped, loops that end before it."""

import asyncio
import concurrent.futures
import errno
import gc
import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore import files
from loopcore.files import threads
from loopcore.ports import operations as ops
from tests.unit.files.port import FilesPort

Loop = asyncio.AbstractEventLoop


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(b"one\ntwo\nthree\n")
    return made


def drop(things: list[Any]) -> None:
    things.clear()
    gc.collect()


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_no_thread_where_the_port_knows_files(port_loop: Loop, port: FilesPort, path: Path) -> None:
    before = threading.active_count()

    async def main() -> None:
        async with files.open(path, "r+b") as file:
            await file.read(2)
            await file.write(b"x")
            await file.fsync()
            await file.datasync()
            await file.stat()
        await files.stat(path)

    port_loop.run_until_complete(main())
    assert threading.active_count() == before
    assert port.log == ["STAT", "OPEN", "READ", "WRITE", "SYNC", "SYNC", "STAT", "CLOSE", "STAT"]


def test_a_port_that_does_not_know_files_leaves_them_to_threads(path: Path) -> None:
    class Ignorant(FilesPort):
        capabilities = frozenset()

    port = Ignorant()
    with asyncio.Runner(loop_factory=lambda: loopcore.EventLoop(port)) as runner:
        assert runner.run(files.read_bytes(path)) == b"one\ntwo\nthree\n"
    assert "OPEN" not in port.log


async def test_reads_and_writes_take_turns_in_order(path: Path) -> None:
    async with files.open(path, "r+b") as file:
        lines = await asyncio.gather(*(file.readline() for _ in range(4)))
        assert lines == [b"one\n", b"two\n", b"three\n", b""]
        await file.seek(0)
        results = await asyncio.gather(
            file.write(b"1"),
            file.read(2),
            file.write(b"2"),
            file.truncate(6),
            file.seek(0),
            file.read(),
            file.stat(),
        )
        assert results[:-1] == [1, b"ne", 1, 6, 0, b"1ne2tw"]
        assert results[-1].st_size == 6


def test_reads_at_offsets_run_beside_each_other(port_loop: Loop, port: FilesPort, path: Path) -> None:
    async def main() -> None:
        async with files.open(path, "r+b") as file:
            port.hold = lambda operation: operation.code in (ops.READ_FILE, ops.WRITE_FILE)
            tasks = [asyncio.create_task(file.read_at(at, 3)) for at in (0, 4, 8)]
            tasks.append(asyncio.create_task(file.write_at(14, b"four\n")))  # type: ignore[arg-type]
            tasks.append(asyncio.create_task(file.read(3)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert port.in_flight() == ["READ", "READ", "READ", "WRITE", "READ"]
            port.let_go()
            assert await asyncio.gather(*tasks) == [b"one", b"two", b"thr", 5, b"one"]
            assert file.tell() == 3

    port_loop.run_until_complete(main())
    assert path.read_bytes() == b"one\ntwo\nthree\nfour\n"


async def test_offsets_leave_the_position_alone(path: Path) -> None:
    async with files.open(path, "r+b") as file:
        await file.seek(4)
        assert await file.read_at(0) == b"one\ntwo\nthree\n"
        assert await file.write_at(8, b"3") == 1
        assert await file.read_at(100, 5) == b""
        assert file.tell() == 4
        for wrong in (file.read_at(-1, 1), file.write_at(-1, b"x")):
            with pytest.raises(OSError, match="Invalid argument"):
                await wrong
        with pytest.raises(OverflowError):
            await file.seek(2**63)
    async with files.open(path, "ab") as file:
        with pytest.raises(io.UnsupportedOperation, match="r\\+b"):
            await file.write_at(0, b"x")
    assert path.read_bytes() == b"one\ntwo\n3hree\n"


def test_what_was_read_ahead_is_dropped_when_the_file_changes(port_loop: Loop, port: FilesPort, path: Path) -> None:
    async def main() -> None:
        async with files.open(path, "r+b") as file:
            assert await file.readline() == b"one\n"
            await file.write_at(4, b"TWO")
            assert await file.readline() == b"TWO\n"
            # Read ahead while it is being written.
            await file.seek(0)
            await file.write_at(100, b"x")
            port.hold = lambda operation: operation.code == ops.READ_FILE
            reading = asyncio.create_task(file.readline())
            await asyncio.sleep(0)
            await file.write_at(4, b"2wo")
            port.let_go()
            await reading
            assert await file.readline() == b"2wo\n"

    port_loop.run_until_complete(main())


def test_what_was_read_ahead_before_a_write_had_ended_is_dropped(port_loop: Loop, port: FilesPort, path: Path) -> None:
    async def main() -> None:
        async with files.open(path, "r+b") as file:
            port.hold = lambda operation: operation.code == ops.WRITE_FILE
            writing = asyncio.create_task(file.write_at(4, b"TWO"))
            await asyncio.sleep(0)
            assert await file.readline() == b"one\n"
            port.let_go()
            await writing
            assert await file.readline() == b"TWO\n"

    port_loop.run_until_complete(main())


async def test_appends_of_two_files_do_not_overwrite_each_other(tmp_path: Path) -> None:
    path = tmp_path / "log"
    async with files.open(path, "ab") as one, files.open(path, "ab") as two:
        for _ in range(5):
            await one.write(b"1")
            await two.write(b"22")
        assert (one.tell(), two.tell()) == (13, 15)
    assert path.read_bytes() == b"122" * 5


async def test_a_close_waits_for_what_was_asked_for_before(path: Path) -> None:
    file = await files.open(path, "wb")
    results = await asyncio.gather(
        file.write(b"a" * 9), file.write(b"b"), file.write_at(20, b"c"), file.close(), file.close()
    )
    assert results == [9, 1, 1, None, None]
    assert file.closed
    for late in (file.read(), file.write(b""), file.seek(0), file.stat(), file.fsync(), file.read_at(0)):
        with pytest.raises(ValueError, match=r"^I/O operation on closed file$"):
            await late
    for ask in (file.tell, file.fileno):
        with pytest.raises(ValueError, match="closed"):
            ask()
    await file.close()
    assert path.read_bytes() == b"a" * 9 + b"b" + bytes(10) + b"c"


def test_an_error_of_close_is_raised_and_the_descriptor_gone(port_loop: Loop, port: FilesPort, path: Path) -> None:
    numbers = []

    def fail(operation: ops.Operation) -> int:
        if isinstance(operation, ops.Close):
            os.close(operation.fd)  # as close(2) does, also when it fails
            return errno.EDQUOT
        return 0

    async def main() -> None:
        port.fail = fail
        with pytest.raises(OSError, match="quota") as found:
            await fail_in_a_block()
        assert isinstance(found.value.__context__, KeyError)

    async def fail_in_a_block() -> None:
        async with files.open(path) as file:
            numbers.append(file.fileno())
            raise KeyError("in the block")

    port_loop.run_until_complete(main())
    assert not is_open(numbers[0])


def test_a_file_can_be_closed_after_the_executor(thread_loop: Loop, path: Path) -> None:
    async def main() -> None:
        async with files.open(path) as file:
            await thread_loop.shutdown_default_executor()
            with pytest.raises(RuntimeError, match="shutdown"):
                await file.read()
        assert file.closed

    thread_loop.run_until_complete(main())


def test_a_file_is_closed_although_the_executor_drops_the_call(thread_loop: Loop, path: Path) -> None:
    busy = threading.Event()

    async def main() -> None:
        pool = concurrent.futures.ThreadPoolExecutor(1)
        thread_loop.set_default_executor(pool)
        file = await files.open(path)
        number = file.fileno()
        pool.submit(busy.wait)
        closing = asyncio.create_task(file.close())
        await asyncio.sleep(0)
        pool.shutdown(wait=False, cancel_futures=True)
        busy.set()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert file.closed
        assert not is_open(number)

    thread_loop.run_until_complete(main())


def test_a_dropped_file_is_told_of_and_closed(loop: Loop, path: Path) -> None:
    opened = [loop.run_until_complete(files.open(path)._open())]
    number = opened[0].fileno()
    with pytest.warns(ResourceWarning, match=r"unclosed file <loopcore.files.File '.*/file' mode='rb' position=0>"):
        drop(opened)
    assert not is_open(number)


def test_a_file_dropped_at_work_is_closed_when_the_thread_has_ended(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on, seen = threading.Event(), threading.Event(), []

    def read(descriptor: Any, limit: int, offset: int) -> bytes:
        entered.set()
        assert go_on.wait(10.0)
        seen.append(is_open(descriptor.fd))
        return b""

    monkeypatch.setattr(threads, "_read", read)
    loop = asyncio.SelectorEventLoop()
    pool = concurrent.futures.ThreadPoolExecutor(1)
    loop.set_default_executor(pool)
    file = loop.run_until_complete(files.open(path, "rb")._open())
    number = file.fileno()
    at_work: list[Any] = [file, file.read()]
    del file

    async def begin() -> None:
        at_work[1].send(None)
        while not entered.is_set():
            await asyncio.sleep(0)

    loop.run_until_complete(begin())
    at_work[1].close()
    with pytest.warns(ResourceWarning, match="unclosed file"):
        drop(at_work)
    assert is_open(number)
    go_on.set()
    pool.shutdown(wait=True)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    gc.collect()
    assert seen == [True]
    assert not is_open(number)


def test_a_file_whose_loop_is_closed_says_so_and_is_closed(loop: Loop, path: Path) -> None:
    one, two = (loop.run_until_complete(files.open(path)._open()) for _ in range(2))
    numbers = [one.fileno(), two.fileno()]
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()

    async def late() -> None:
        with pytest.raises(
            RuntimeError, match=r"the event loop that .* was opened in is closed; the file is closed now"
        ):
            await one.read()
        await two.close()
        with pytest.raises(ValueError, match="closed"):
            await one.read()

    asyncio.run(late())
    assert one.closed
    assert two.closed
    assert [is_open(number) for number in numbers] == [False, False]


def test_a_file_whose_loop_is_closed_is_closed_after_the_last_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def read(descriptor: Any, limit: int, offset: int) -> bytes:
        entered.set()
        assert go_on.wait(10.0)
        return b""

    monkeypatch.setattr(threads, "_read", read)
    loop = asyncio.SelectorEventLoop()
    pool = concurrent.futures.ThreadPoolExecutor(1)
    loop.set_default_executor(pool)
    file = loop.run_until_complete(files.open(path)._open())
    number, reading = file.fileno(), file.read()

    async def begin() -> None:
        reading.send(None)
        while not entered.is_set():
            await asyncio.sleep(0)

    loop.run_until_complete(begin())
    loop.close()
    asyncio.run(file.close())
    assert is_open(number)
    reading.close()
    go_on.set()
    pool.shutdown(wait=True)
    gc.collect()
    assert file.closed
    assert not is_open(number)


def test_a_file_of_another_loop_is_refused_and_stays(loop: Loop, path: Path) -> None:
    file = loop.run_until_complete(files.open(path)._open())

    async def elsewhere() -> None:
        for use in (file.read(), file.close()):
            with pytest.raises(RuntimeError, match="belongs to another event loop"):
                await use

    asyncio.run(elsewhere())
    assert loop.run_until_complete(file.read(3)) == b"one"
    loop.run_until_complete(file.close())


async def test_a_position_is_a_whole_number(path: Path) -> None:
    async with await files.open(path) as file:
        with pytest.raises(TypeError, match="integer"):
            await file.seek(1.5)  # type: ignore[arg-type]
        assert file.tell() == 0
