"""How the end of a child is seen: by pidfd and by thread, and what is left to the program."""

import asyncio
import errno
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from loopcore.ports.readiness import Capability
from loopcore.services import children as module
from loopcore.services.children import HAS_PIDFD, HAS_WAITID, Child, Children
from tests.transports.process_support import ProcessRecorder, ended
from tests.transports.recorder import run, settle

pytestmark = pytest.mark.loopcore_only


def knows_processes(loop: Any) -> bool:
    """Tell whether a completion port stands below `loop` that knows WaitProcess."""
    return loop._completions is not None and Capability.PROCESSES in loop.backend.capabilities


@pytest.fixture(params=["port", "pidfd", "thread", "thread that reaps"])
def children(request: pytest.FixtureRequest, loop: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    """The children of `loop`, watched in each way; its subprocess methods use them."""
    if request.param == "port" and not knows_processes(loop):
        pytest.skip("the backend does not wait for processes")
    if request.param == "pidfd" and not HAS_PIDFD:
        pytest.skip("no pidfd on this platform")
    if request.param == "thread" and not HAS_WAITID:
        pytest.skip("no waitid on this platform")
    monkeypatch.setattr(module, "HAS_WAITID", HAS_WAITID and request.param != "thread that reaps")
    made = Children(loop, ways=[request.param])
    loop._children = made
    yield made
    made.close()


@pytest.fixture
def can_be_seen(children: Children) -> None:
    """Leave out the case where a thread has to reap: who reaps first is a race there."""
    if not module.HAS_WAITID:
        pytest.skip("only where an end can be seen without reaping")


@pytest.mark.usefixtures("children")
async def test_codes_arrive() -> None:
    for code in (0, 1, 200):
        process = await asyncio.create_subprocess_shell(f"exit {code}")
        assert await process.wait() == code
    process = await asyncio.create_subprocess_exec("sleep", "60")
    process.send_signal(signal.SIGUSR1)
    assert await process.wait() == -signal.SIGUSR1
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.usefixtures("children")
async def test_many_at_once() -> None:
    async def one(number: int) -> int:
        process = await asyncio.create_subprocess_shell(f"cat; exit {number}", stdin=-1, stdout=-1)
        assert await process.communicate(b"x" * 1000) == (b"x" * 1000, None)
        return await process.wait()

    assert await asyncio.gather(*[one(number) for number in range(15)]) == list(range(15))


@pytest.mark.usefixtures("can_be_seen")
async def test_code_taken_by_somebody_else_is_255_with_a_warning(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    transport, protocol = await loop.subprocess_exec(
        ProcessRecorder, "sleep", "60", stdin=None, stdout=None, stderr=None
    )
    transport.kill()
    os.waitpid(transport.get_pid(), 0)  # the stranger
    transport.kill()  # hits nobody
    assert await ended(transport, protocol) == 255
    assert "exit status already read: will report returncode 255" in caplog.text


@pytest.mark.usefixtures("can_be_seen")
async def test_code_taken_through_the_popen_object_is_known(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    transport, protocol = await loop.subprocess_exec(
        ProcessRecorder, "sleep", "60", stdin=None, stdout=None, stderr=None
    )
    process = transport.get_extra_info("subprocess")
    process.kill()
    process.wait()
    assert await ended(transport, protocol) == -signal.SIGKILL
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.usefixtures("can_be_seen")
async def test_code_that_another_thread_takes_at_the_moment_is_waited_for(
    loop: asyncio.AbstractEventLoop, children: Children
) -> None:
    holds, reaped, never = threading.Event(), threading.Event(), threading.Event()

    def ask(process: Any) -> None:
        """Do as Popen.wait, and be slow to note the code."""
        with process._waitpid_lock:
            holds.set()
            _, status = os.waitpid(process.pid, 0)
            reaped.set()
            never.wait(0.2)
            process.returncode = os.waitstatus_to_exitcode(status)

    code: asyncio.Future[int] = loop.create_future()
    with subprocess.Popen(["sh", "-c", "read _; exit 7"], stdin=subprocess.PIPE) as process:
        thread = threading.Thread(target=ask, args=(process,))
        thread.start()
        assert holds.wait(30)
        children.watch(process, code.set_result)
        process.stdin.close()  # type: ignore[union-attr]
        assert await code == 7
        thread.join()
    assert reaped.is_set()


@pytest.mark.usefixtures("children")
def test_sigchld_and_the_wakeup_descriptor_stay_the_programs(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda number, frame: seen.append(number))
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    wakeup_before = signal.set_wakeup_fd(writing)
    try:

        async def main() -> None:
            process = await asyncio.create_subprocess_shell("exit 3")
            assert await process.wait() == 3

        run(loop, main())
        assert seen == [signal.SIGCHLD]
        assert os.read(reading, 10) == bytes([signal.SIGCHLD])
        assert signal.set_wakeup_fd(wakeup_before) == writing
    finally:
        signal.set_wakeup_fd(wakeup_before)
        signal.signal(signal.SIGCHLD, before)
        os.close(reading)
        os.close(writing)


@pytest.mark.usefixtures("children")
async def test_children_of_the_program_are_left_alone() -> None:
    stranger = subprocess.Popen(["/bin/sh", "-c", "exit 9"])
    process = await asyncio.create_subprocess_shell("exit 3")
    assert await process.wait() == 3
    assert os.waitpid(stranger.pid, 0)[1] == 9 << 8
    stranger.returncode = 9


@pytest.mark.usefixtures("children")
def test_loop_in_another_thread_has_children_too(loop: asyncio.AbstractEventLoop) -> None:
    codes: list[int] = []

    async def main() -> None:
        process = await asyncio.create_subprocess_shell("exit 6")
        codes.append(await process.wait())

    thread = threading.Thread(target=run, args=(loop, main()))
    thread.start()
    thread.join()
    assert codes == [6]


async def test_ended_child_is_not_running(can_be_seen: None, children: Children) -> None:
    process = subprocess.Popen(["sleep", "60"])
    ends: list[int] = []
    child = children.watch(process, ends.append)
    assert child.is_running()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not child.is_running()  # a zombie, which it still is
    assert process.returncode is None
    while not ends:
        await asyncio.sleep(0)
    assert not child.is_running()
    child.send_signal(signal.SIGTERM)
    assert ends == [-signal.SIGKILL] == [process.returncode]


@pytest.mark.usefixtures("children")
def test_loop_that_closes_before_its_child_leaves_no_zombie(
    loop: asyncio.AbstractEventLoop, children: Children
) -> None:
    async def main() -> None:
        children.watch(process, lambda code: pytest.fail("called after close"))

    process = subprocess.Popen(["sleep", "60"])
    run(loop, main())
    children.close()
    loop.close()
    process.kill()
    # The thread reaps or, with a pidfd, whoever asks the Popen object.
    assert process.wait() in (-signal.SIGKILL, 0)


class Between:
    """A loop with something before its completion port that keeps, or refuses, what is asked of it."""

    def __init__(self, loop: Any, refusal: OSError | None) -> None:
        self.loop = loop
        self._completions = self
        self.asked: list[Any] = []
        self._refusal = refusal

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)

    def submit(self, operation: Any) -> None:
        self.asked.append(operation)
        if self._refusal is not None:
            raise self._refusal
        self.loop._completions.submit(operation)


@pytest.mark.parametrize("end", ["given up", "refused"])
async def test_child_that_the_port_gives_up_is_watched_otherwise(loop: Any, end: str) -> None:
    if not knows_processes(loop):
        pytest.skip("the backend does not wait for processes")
    between = Between(loop, OSError(errno.ENOMEM, "no room") if end == "refused" else None)
    ends: list[int] = []
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        Children(between).watch(process, ends.append)
        (asked,) = between.asked
        if end == "given up":
            loop._completions.cancel(asked)
        while asked.pending:
            await asyncio.sleep(0)
        assert not ends
        process.communicate()
        while not ends:
            await asyncio.sleep(0)
        assert ends == [0]


async def test_child_that_the_port_watches_takes_no_descriptor(loop: Any) -> None:
    if not knows_processes(loop):
        pytest.skip("the backend does not wait for processes")
    children = Children(loop)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        before = os.listdir("/proc/self/fd")
        children.watch(process, lambda code: None)
        assert os.listdir("/proc/self/fd") == before
        children.close()


class Full:
    """A loop whose backend takes no further descriptor, as select(2) beyond 1023."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self._readiness = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)

    def set_reader(self, fd: int, runnable: object) -> None:
        raise ValueError("select takes no number as large as this")


@pytest.mark.skipif(not HAS_PIDFD, reason="no pidfd on this platform")
@pytest.mark.parametrize("step", ["open", "register"])
async def test_thread_helps_out_where_a_pidfd_cannot_be_had(
    loop: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def refuse(*_: Any) -> Any:
        raise OSError(errno.EMFILE, "too many")

    ends: list[int] = []
    process = subprocess.Popen(["/bin/sh", "-c", "exit 8"])
    with monkeypatch.context() as patch:
        if step == "open":
            patch.setattr(os, "pidfd_open", refuse)
        Children(loop if step == "open" else Full(loop), ways=["pidfd"]).watch(process, ends.append)
    while not ends:
        await asyncio.sleep(0)
    assert ends == [8]


@pytest.mark.parametrize("reaps", [False, True])
def test_a_thread_whose_loop_was_closed_stores_the_code(
    loop: Any, monkeypatch: pytest.MonkeyPatch, reaps: bool
) -> None:
    if reaps:
        monkeypatch.setattr(module, "HAS_WAITID", False)
    child = Child(subprocess.Popen(["/bin/sh", "-c", "exit 8"]), pytest.fail, set(), loop._readiness)
    loop.close()
    module._await_end(loop, child)
    assert child.process.returncode == 8


@pytest.mark.skipif(not HAS_PIDFD, reason="no pidfd on this platform")
@pytest.mark.parametrize("ways", [["pidfd"], []], ids=["pidfd", "thread"])
@pytest.mark.parametrize("error", [errno.EINVAL, errno.EPERM, errno.ENOSYS])
async def test_kernel_that_refuses_to_wait_without_reaping(
    loop: Any, monkeypatch: pytest.MonkeyPatch, ways: list[str], error: int
) -> None:
    """EINVAL: Linux 5.3, for a pidfd; the others: a sandbox."""

    def refuse(*_: Any) -> Any:
        raise OSError(error, os.strerror(error))

    ends: list[int] = []
    monkeypatch.setattr(os, "waitid", refuse)
    with subprocess.Popen(["/bin/sh", "-c", "read _; exit 8"], stdin=subprocess.PIPE) as process:
        child = Children(loop, ways=ways).watch(process, ends.append)
        assert child.is_running()
        process.stdin.close()  # type: ignore[union-attr]
        while not ends:
            await asyncio.sleep(0)
    assert ends == [8]


async def test_thread_that_cannot_start_leaves_no_process(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    loop._children = Children(loop, ways=[])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            await loop.subprocess_exec(ProcessRecorder, "sleep", "60")
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    await settle()


async def test_input_may_be_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on AIX."""
    from loopcore.endpoints import process as endpoint

    monkeypatch.setattr(endpoint, "STDIN_IS_A_SOCKET", True)
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    assert await process.communicate(b"through a socket") == (b"through a socket", None)
    with pytest.raises(FileNotFoundError):
        await asyncio.create_subprocess_exec("/no/such/program", stdin=-1)
