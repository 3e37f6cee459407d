"""asyncio.create_subprocess_exec and _shell on our loop: streams, communicate, wait, many at once."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from typing import Any

import pytest

from tests.transports.process_support import grandchild
from tests.transports.recorder import run

MANY = 40
BYTES_EACH = 20_000


@pytest.mark.covers("EventLoop.subprocess_exec(stdin, stdout, stderr)")
async def test_communicate() -> None:
    process = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
    data = os.urandom(500_000)
    assert await process.communicate(data) == (data, None)
    assert process.returncode == 0


async def test_lines_back_and_forth() -> None:
    process = await asyncio.create_subprocess_shell("while read line; do echo got $line; done", stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(5):
        process.stdin.write(b"%d\n" % number)
        await process.stdin.drain()
        assert await process.stdout.readline() == b"got %d\n" % number
    process.stdin.close()
    assert await process.wait() == 0
    assert await process.stdout.read() == b""


async def test_errors_into_the_output() -> None:
    process = await asyncio.create_subprocess_shell("echo a; echo b >&2", stdout=PIPE, stderr=STDOUT, stdin=DEVNULL)
    assert await process.communicate() == (b"a\nb\n", None)


async def test_input_that_nobody_reads() -> None:
    process = await asyncio.create_subprocess_exec("true", stdin=PIPE)
    await process.communicate(b"x" * 1_000_000)
    assert process.returncode == 0


async def test_waiting_may_be_cancelled_and_repeated() -> None:
    process = await asyncio.create_subprocess_exec("sleep", "60")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.wait(), 0)
    process.kill()
    codes = await asyncio.gather(*[process.wait() for _ in range(10)])
    assert codes == [-signal.SIGKILL] * 10
    assert await process.wait() == -signal.SIGKILL


@pytest.mark.loopcore_only  # as CPython since gh-119710
async def test_wait_ends_with_the_process_not_with_its_pipes() -> None:
    with grandchild() as (command, options):
        process = await asyncio.create_subprocess_shell(command + "exit 4", stdout=PIPE, **options)
        assert await process.wait() == 4
    assert process.stdout is not None
    assert await process.stdout.read() == b""


@pytest.mark.loopcore_only
def test_pipes_that_outlive_process_and_loop_are_closed_in_silence(loop: asyncio.AbstractEventLoop) -> None:
    with grandchild() as (command, options):

        async def main() -> Any:
            process = await asyncio.create_subprocess_shell(command + "exit 4", stdout=PIPE, **options)
            assert await process.wait() == 4
            return process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]

        pipe = run(loop, main())
        loop.close()
        assert pipe.is_closing()


async def test_many_at_once() -> None:
    async def one(number: int) -> None:
        process = await asyncio.create_subprocess_shell(f"cat; exit {number}", stdin=PIPE, stdout=PIPE)
        data = bytes([number]) * BYTES_EACH
        assert await process.communicate(data) == (data, None)
        assert process.returncode == number

    await asyncio.gather(*[one(number) for number in range(MANY)])
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.skipif(sys.platform != "linux", reason="lists descriptors in /proc")
async def test_child_has_no_descriptor_of_ours() -> None:
    code = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))"
    other = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
    process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", code, stdin=PIPE, stdout=PIPE)
    # 3 is the listing itself.
    assert await process.communicate(b"") == (b"[0, 1, 2, 3]\n", None)
    await other.communicate(b"")


@pytest.mark.covers("EventLoop.subprocess_shell(kwargs)")
async def test_options_of_popen(tmp_path: Any) -> None:
    reading, writing = os.pipe()
    try:
        process = await asyncio.create_subprocess_shell(
            f"read line; pwd; echo $NAME; ulimit -n; echo passed >/dev/fd/{writing}",
            stdin=PIPE,
            stdout=PIPE,
            cwd=tmp_path,
            env={"NAME": "value", "PATH": os.environ["PATH"]},
            pass_fds=[writing],
            start_new_session=True,
            preexec_fn=_lower_limit,
        )
        session = os.getsid(process.pid)
        os.set_blocking(reading, False)
        out, _ = await process.communicate(b"\n")
        assert out.decode().splitlines() == [str(tmp_path), "value", "77"]
        assert os.read(reading, 100) == b"passed\n"
        assert session == process.pid
    finally:
        os.close(reading)
        os.close(writing)


def _lower_limit() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (77, 77))
