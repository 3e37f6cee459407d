"""Subprocesses on Windows, over a completion port: the other tests speak to Unix' shell. The children are Pythons."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from typing import Any

import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "win32", reason="Windows only"),
    pytest.mark.loopcore_only,
]

COPY = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
LINES = "import sys\nfor line in sys.stdin: print('got', line, end='', flush=True)"


async def python(program: str, **options: Any) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", program, **options)


@pytest.fixture(autouse=True)
def _needs_pipes(backend_name: str) -> None:
    if backend_name != "iocp":
        pytest.skip("no other backend has pipes on Windows")


async def test_output_and_code_arrive() -> None:
    process = await python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)",
                           stdout=PIPE, stderr=PIPE)  # fmt: skip
    out, err = await process.communicate()
    assert (out.split(), err.split(), process.returncode) == ([b"out"], [b"err"], 7)


async def test_errors_go_into_the_output() -> None:
    process = await python("import sys; print('err', file=sys.stderr)", stdout=PIPE, stderr=STDOUT)
    assert await process.communicate() == (b"err\r\n", None)


async def test_more_than_a_pipe_holds_goes_in_and_comes_out() -> None:
    data = bytes(range(256)) * 4096
    process = await python(COPY, stdin=PIPE, stdout=PIPE)
    out, _ = await process.communicate(data)
    assert out == data


async def test_lines_go_back_and_forth() -> None:
    process = await python(LINES, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(5):
        process.stdin.write(b"%d\n" % number)
        await process.stdin.drain()
        assert (await process.stdout.readline()).split() == [b"got", b"%d" % number]
    process.stdin.close()
    assert await process.wait() == 0


@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_a_process_can_be_ended(end: str) -> None:
    process = await python(LINES, stdin=PIPE, stdout=PIPE)
    getattr(process, end)()
    assert await process.wait() == 1  # what TerminateProcess is given, by subprocess


async def test_a_signal_ends_it_too_and_none_reaches_one_that_has_ended() -> None:
    process = await python(LINES, stdin=PIPE, stdout=PIPE)
    process.send_signal(signal.SIGTERM)
    await process.wait()
    with pytest.raises(ProcessLookupError):
        process.send_signal(signal.SIGTERM)


async def test_waiting_can_be_cancelled_and_repeated() -> None:
    process = await python(LINES, stdin=PIPE)
    waiting = asyncio.ensure_future(process.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert process.stdin is not None
    process.stdin.close()
    assert await process.wait() == 0


async def test_many_run_at_once() -> None:
    async def one(number: int) -> None:
        process = await python(f"{COPY}; sys.exit({number})", stdin=PIPE, stdout=PIPE)
        assert await process.communicate(b"%d" % number) == (b"%d" % number, None)
        assert process.returncode == number

    await asyncio.gather(*(one(number) for number in range(5)))


async def test_a_program_that_is_not_there_is_an_error_and_leaves_nothing() -> None:
    with pytest.raises(FileNotFoundError):
        await asyncio.create_subprocess_exec("no-such-program", stdin=PIPE, stdout=PIPE, stderr=PIPE)
