"""What can be opened, how, and what is said of the rest."""

import asyncio
import fcntl
import io
import os
import signal
import stat
from pathlib import Path

import pytest

from loopcore import files
from loopcore.files import threads

Loop = asyncio.AbstractEventLoop


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(b"one\ntwo\nthree\n")
    return made


async def test_descriptors_are_not_inherited(path: Path) -> None:
    async with files.open(path) as file:
        assert not os.get_inheritable(file.fileno())
        assert os.get_blocking(file.fileno())


def test_a_new_file_has_the_rights_that_the_umask_leaves(loop: Loop, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        loop.run_until_complete(files.write_bytes(tmp_path / "new", b""))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_pipes_and_terminals_are_refused(loop: Loop, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    master, slave = os.openpty()
    try:
        for target in (fifo, os.ttyname(slave)):
            for mode in ("rb", "wb", "r+b", "ab"):  # none of them waits for the other end of the FIFO
                with pytest.raises(io.UnsupportedOperation, match=r"loop\.connect_read_pipe"):
                    loop.run_until_complete(files.open(target, mode)._open())
    finally:
        os.close(master)
        os.close(slave)


def test_a_fifo_that_takes_the_place_of_a_file_is_not_waited_for(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for module in (threads, files.operated):  # type: ignore[attr-defined]
        monkeypatch.setattr(module, "check_kind", lambda path, mode: None)
    with pytest.raises(io.UnsupportedOperation, match="has no position"):
        loop.run_until_complete(files.open(fifo)._open())


def test_a_lease_is_waited_for(thread_loop: Loop, path: Path) -> None:
    with path.open("r+b") as holder:
        broken = []

        def give_back() -> None:
            broken.append(1)
            fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_UNLCK)

        thread_loop.add_signal_handler(signal.SIGIO, give_back)  # a plain one might come just before the wait
        try:
            try:
                fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            except OSError as exc:
                pytest.skip(f"no leases on this file system: {exc}")
            assert thread_loop.run_until_complete(files.read_bytes(path)) == b"one\ntwo\nthree\n"
        finally:
            thread_loop.remove_signal_handler(signal.SIGIO)
    assert broken


async def test_an_opening_is_for_one_block(path: Path) -> None:
    opening = files.open(path)
    async with opening:
        with pytest.raises(RuntimeError, match=r"call open\(\) again"):
            async with opening:
                pass
    async with opening as again:  # one after the other is fine
        assert await again.read(3) == b"one"
    async with await files.open(path) as file:
        assert await file.read(3) == b"one"
    assert file.closed


async def test_an_opening_is_refused_while_another_task_enters_it(path: Path) -> None:
    opening = files.open(path)
    outcomes = await asyncio.gather(opening.__aenter__(), opening.__aenter__(), return_exceptions=True)
    assert [type(each) for each in outcomes] == [files.File, RuntimeError]
    await opening.__aexit__(None, None, None)
    path.unlink()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            await opening.__aenter__()


@pytest.mark.parametrize("wrong", ["r", "w+", "rt", "a"])
def test_text_is_refused_with_the_way_out(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"binary: use mode .*b instead of"):
        files.open("x", wrong)


async def test_wrong_arguments(path: Path) -> None:
    with pytest.raises(TypeError):
        files.open(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        files.open(path, 3)  # type: ignore[arg-type]
    async with files.open(path, "r+b") as file:
        for wrong, error in (
            (file.write("text"), TypeError),
            (file.write_at(0, None), TypeError),
            (file.readinto(b"not writable"), TypeError),
            (file.seek(0, 9), ValueError),
        ):
            with pytest.raises(error):
                await wrong
        assert file.tell() == 0
        with pytest.raises(ValueError, match="at least one byte"):
            file.blocks(0)
    assert path.read_bytes() == b"one\ntwo\nthree\n"
