"""A File and built-in `open` are told the same, and answer the same: results, positions, errors, contents."""

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopcore import files
from tests.unit.files.port import FilesPort

Loop = asyncio.AbstractEventLoop

MODES = ["rb", "r+b", "wb", "w+b", "xb", "x+b", "ab", "a+b"]
SIZES = st.integers(-2, 40) | st.none()
CONTENT = st.lists(st.sampled_from([b"\n", b"a", b"bcd\n", b"longer than some\n", b"\0\xff"]), max_size=12).map(
    b"".join
)
STEP = st.one_of(
    st.tuples(st.just("read"), SIZES),
    st.tuples(st.just("readline"), SIZES),
    st.tuples(st.just("readinto"), st.integers(0, 30)),
    st.tuples(st.just("write"), CONTENT),
    st.tuples(st.just("seek"), st.integers(-10, 60), st.integers(0, 2)),
    st.tuples(st.just("truncate"), st.integers(0, 60) | st.none()),
    st.tuples(st.just("tell")),
    st.tuples(st.just("size")),
    st.tuples(st.just("next")),
)


def outcome_of(exc: BaseException) -> Any:
    return type(exc), getattr(exc, "errno", None)


def on_plain(file: Any, name: str, *arguments: Any) -> Any:
    """The step on a file of built-in `open`, which is flushed so that it stands where it says."""
    try:
        if name == "readinto":
            buffer = bytearray(arguments[0])
            return file.readinto(buffer), buffer
        if name == "size":
            return os.fstat(file.fileno()).st_size
        if name == "next":
            return file.readline()  # iterating one by one; b"" is the end of it
        if name == "readline" and not file.readable():
            file.read()  # raises; `readline` would, too, if it were not for a size of 0 from Python 3.13 on
        if name.startswith("read") and arguments == (None,):
            arguments = (-1,)  # the same; what has no `read` refuses None in its own ways
        return getattr(file, name)(*arguments)
    except (OSError, ValueError) as exc:
        return outcome_of(exc)
    finally:
        file.flush()


async def on_file(file: files.File, name: str, *arguments: Any) -> Any:
    """The step on a File."""
    try:
        if name == "readinto":
            buffer = bytearray(arguments[0])
            return await file.readinto(buffer), buffer
        if name == "size":
            return (await file.stat()).st_size
        if name == "tell":
            return file.tell()
        if name == "next":
            async for line in file:
                return line
            return b""
        return await getattr(file, name)(*arguments)
    except (OSError, ValueError) as exc:
        return outcome_of(exc)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    mode=st.sampled_from(MODES), content=CONTENT, steps=st.lists(STEP, max_size=12), most=st.integers(1, 9) | st.none()
)
def test_as_built_in_open(loop: Loop, tmp_path: Path, mode: str, content: bytes, steps: list[Any], most: int) -> None:
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    for path in (plain, ours):
        path.unlink(missing_ok=True)
        if "x" not in mode:
            path.write_bytes(content)
    backend = getattr(loop, "backend", None)
    if isinstance(backend, FilesPort):
        backend.most = most  # each call is short

    async def main() -> list[Any]:
        async with files.open(ours, mode) as file:
            assert file.mode == expected_mode
            assert (file.readable(), file.writable()) == able
            return [(await on_file(file, *step), file.tell()) for step in steps]

    with plain.open(mode) as file:
        expected_mode, able = file.mode, (file.readable(), file.writable())
        expected = [(on_plain(file, *step), file.tell()) for step in steps]
    assert loop.run_until_complete(main()) == expected
    assert ours.read_bytes() == plain.read_bytes()


@settings(max_examples=60, deadline=None)
@given(letters=st.text("rwxabt+U", max_size=4))
def test_modes_are_those_of_built_in_open(letters: str) -> None:
    try:
        with open(os.devnull, letters):
            taken = "b" in letters
    except FileExistsError:
        taken = "b" in letters
    except ValueError:
        taken = False
    if taken:
        files.open(os.devnull, letters)
    else:
        with pytest.raises(ValueError):
            files.open(os.devnull, letters)


@pytest.mark.parametrize("mode", ["rb", "r+b", "wb", "xb", "ab"])
@pytest.mark.parametrize("kind", ["missing", "directory", "below a file", "no right", "null", "loop", "socket"])
def test_opening_fails_as_built_in_open_does(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, kind: str
) -> None:

    plain = tmp_path / "file"
    plain.touch()
    (tmp_path / "closed").write_bytes(b"")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with socket.socket(socket.AF_UNIX) as bound:
        monkeypatch.chdir(tmp_path)  # the address of a socket is short
        bound.bind("socket")
        path = {
            "missing": str(tmp_path / "no folder" / "x"),
            "directory": str(tmp_path),
            "below a file": os.fsencode(plain / "x"),
            "no right": tmp_path / "closed",
            "null": "nu\0ll",
            "loop": tmp_path / "loop",
            "socket": "socket",
        }[kind]
        try:
            with open(path, mode):
                pytest.skip("root may do that")
        except (OSError, ValueError) as exc:
            expected = exc
        with pytest.raises(type(expected)) as found:
            loop.run_until_complete(files.open(path, mode)._open())
    assert getattr(found.value, "filename", None) == getattr(expected, "filename", None)
    assert str(found.value) == str(expected)


async def test_stat_is_that_of_os(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"12345")
    link.symlink_to("target")
    assert await files.stat(link) == link.stat()
    assert await files.stat(bytes(link), follow_symlinks=False) == link.lstat()
    async with files.open(link) as file:
        assert await file.stat() == target.stat()
    with pytest.raises(FileNotFoundError) as found:
        await files.stat("nothing here")
    assert found.value.filename == "nothing here"


async def test_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "large"
    content = os.urandom(2_500_000)  # more than a call reads

    async def files_blocks(data: bytes) -> Any:
        path.write_bytes(data)
        async with files.open(path) as file:
            async for block in file.blocks():
                yield block

    assert await files.write_bytes(path, memoryview(content).cast("B", (500, 5000))) == len(content)
    assert path.read_bytes() == content
    assert await files.read_bytes(path) == content
    assert await files.write_bytes(path, b"") == 0
    assert await files.read_bytes(path) == b""
    with pytest.raises(TypeError):
        await files.write_bytes(path, "text")
    blocks = [block async for block in files_blocks(content)]
    assert b"".join(blocks) == content
    assert {len(block) for block in blocks} == {65536, len(content) % 65536}


def test_what_cannot_be_written_does_not_empty_the_file(loop: Loop, tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"kept")
    with pytest.raises(TypeError):
        loop.run_until_complete(files.write_bytes(path, 5))
    assert path.read_bytes() == b"kept"


@pytest.mark.skipif(sys.platform != "linux", reason="reads a file in /proc")
async def test_files_of_the_kernel_and_devices() -> None:
    assert b"Name:" in await files.read_bytes("/proc/self/status")  # its size is said to be 0
    assert await files.read_bytes(os.devnull) == b""
    assert await files.write_bytes(os.devnull, b"away") == 4
    async with files.open("/dev/zero") as file:
        assert await file.read(5) == bytes(5)
