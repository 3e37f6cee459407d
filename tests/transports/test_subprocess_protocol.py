"""subprocess_exec and subprocess_shell: what a protocol is told, and what its transport does."""

import asyncio
import contextlib
import contextvars
import gc
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.transports.datagram_support import ANY_PORT, DatagramRecorder, endpoint, udp_socket
from tests.transports.pipe_support import made, pipe_pair
from tests.transports.process_support import ProcessRecorder, ended, grandchild, shell
from tests.transports.recorder import Events, Handled, Recorder, run, settle


@pytest.mark.covers("EventLoop.subprocess_shell")
async def test_protocol_methods_are_called_in_order() -> None:
    transport, protocol = await shell("echo out; echo err >&2; exit 3")
    assert protocol.kinds()[0] == "made"
    assert protocol.transport is transport
    assert await ended(transport, protocol) == 3
    kinds = protocol.kinds()
    assert sorted(kinds) == sorted(["made", "pipe", "pipe", *["pipe lost"] * 3, "exited", "lost"])
    assert kinds[len(kinds) - 1] == "lost"
    assert ("exited", 3) in protocol.events
    assert (protocol.output(1), protocol.output(2)) == (b"out\n", b"err\n")
    for fd in (1, 2):
        of_pipe = [event[0] for event in protocol.events if event[0].startswith("pipe") and event[1] == fd]
        assert of_pipe == ["pipe", "pipe lost"]


@pytest.mark.differs(
    "EventLoop.create_datagram_endpoint",
    "EventLoop.connect_read_pipe",
    "EventLoop.connect_write_pipe",
    "EventLoop.subprocess_exec",
    why="A protocol's methods share one copy of the opener's context; asyncio calls them in several contexts.",
)
async def test_all_callbacks_of_datagrams_pipes_and_processes_share_one_context(
    loop: asyncio.AbstractEventLoop, backend_name: str
) -> None:
    variable = contextvars.ContextVar("variable", default=0)

    def counted(protocol: Events, *kinds: str) -> list[int]:
        def count() -> None:
            counts.append(variable.get())
            variable.set(len(counts))

        counts: list[int] = []
        protocol.react = dict.fromkeys(kinds, count)
        return counts

    datagrams, reader, writer, process = DatagramRecorder(), Recorder(), Recorder(), ProcessRecorder()
    counts = [
        counted(datagrams, "made", "datagram", "lost"),
        counted(reader, "made", "data", "eof", "lost"),
        counted(writer, "made", "lost"),
        counted(process, "made", "pipe", "pipe lost", "exited", "lost"),
    ]
    with udp_socket() as peer:
        async with endpoint(datagrams, ANY_PORT) as transport:
            peer.sendto(b"x", transport.get_extra_info("sockname"))
            await datagrams.seen("datagram")
    with made(pipe_pair) as (reading, writing):
        await loop.connect_read_pipe(lambda: reader, reading)
        pipe, _ = await loop.connect_write_pipe(lambda: writer, writing)
        pipe.write(b"x")
        await reader.seen("data")
        pipe.close()
        await reader.seen("lost")
    child, _ = await loop.subprocess_exec(lambda: process, "echo", stdin=None, stderr=None)
    await ended(child, process)
    assert [len(each) for each in counts] == [3, 4, 2, 5]
    assert [each == [*range(len(each))] for each in counts] == [backend_name != "asyncio"] * 4
    assert variable.get() == 0


def wait_for_a_child() -> None:
    with contextlib.suppress(ChildProcessError):  # the loop was faster
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


async def test_an_error_in_a_call_that_waited_for_the_pipes_is_reported_as_any_other(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(ProcessRecorder):
        def process_exited(self) -> None:
            raise ZeroDivisionError

    async def late(*args: Any) -> Any:
        await loop.run_in_executor(None, wait_for_a_child)
        await settle(20)
        return await connect(*args)

    connect = loop.connect_read_pipe
    monkeypatch.setattr(loop, "connect_read_pipe", late)
    handled = Handled(loop)
    transport, protocol = await loop.subprocess_exec(Failing, "true", stdin=None, stderr=None)
    await ended(transport, protocol)
    (message,) = handled.messages()
    assert message.endswith(".process_exited()")
    assert ")()" not in message


@pytest.mark.loopcore_only
async def test_a_wait_that_timed_out_leaves_nothing_in_the_transport() -> None:
    transport, protocol = await shell("read line")
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(transport._wait(), 0.001)
    assert not transport._exit_waiters
    transport.kill()
    await ended(transport, protocol)


@pytest.mark.covers("EventLoop.subprocess_exec(stderr)", "SubprocessTransport.get_pipe_transport")
async def test_input_goes_through(loop: asyncio.AbstractEventLoop) -> None:
    transport, protocol = await loop.subprocess_exec(ProcessRecorder, "cat", stderr=None)
    data = os.urandom(300_000)
    stdin = transport.get_pipe_transport(0)
    stdin.write(data)
    assert "pause" in protocol.kinds()  # the pipe's flow control is the process's protocol's
    stdin.write_eof()
    assert await ended(transport, protocol) == 0
    assert protocol.output(1) == data
    assert "resume" in protocol.kinds()


async def test_reading_from_the_process_can_be_paused() -> None:
    transport, protocol = await shell("read x; echo $x; read x; echo $x")
    stdin, stdout = transport.get_pipe_transport(0), transport.get_pipe_transport(1)
    stdin.write(b"one\n")
    await protocol.until(lambda: protocol.output(1) == b"one\n")
    stdout.pause_reading()
    stdin.write(b"two\n")
    await protocol.seen("exited")
    assert "lost" not in protocol.kinds()  # one pipe has not ended
    stdout.resume_reading()
    await ended(transport, protocol)
    assert protocol.output(1) == b"one\ntwo\n"


@pytest.mark.covers("EventLoop.subprocess_shell(stdin, stdout, stderr)")
async def test_process_without_pipes() -> None:
    transport, protocol = await shell("exit 7", stdin=None, stdout=None, stderr=None)
    assert [transport.get_pipe_transport(fd) for fd in (0, 1, 2)] == [None] * 3
    assert await ended(transport, protocol) == 7
    assert protocol.kinds() == ["made", "exited", "lost"]


@pytest.mark.covers("SubprocessTransport.get_returncode")
@pytest.mark.parametrize(
    ("send", "number"),
    [
        (lambda transport: transport.kill(), signal.SIGKILL),
        (lambda transport: transport.terminate(), signal.SIGTERM),
        (lambda transport: transport.send_signal(signal.SIGUSR1), signal.SIGUSR1),
    ],
)
async def test_signals_end_it(loop: asyncio.AbstractEventLoop, send: Callable[[Any], None], number: int) -> None:
    transport, protocol = await loop.subprocess_exec(ProcessRecorder, "sleep", "60")
    send(transport)
    assert await ended(transport, protocol) == -number
    await settle()
    with pytest.raises(ProcessLookupError):
        send(transport)


@pytest.mark.covers("SubprocessTransport.close", "SubprocessTransport.is_closing", "EventLoop.subprocess_exec(args)")
async def test_close_kills_and_closes_the_pipes(loop: asyncio.AbstractEventLoop) -> None:
    transport, protocol = await loop.subprocess_exec(ProcessRecorder, "sleep", "60")
    assert not transport.is_closing()
    transport.close()
    transport.close()
    assert transport.is_closing()
    assert await ended(transport, protocol) == -signal.SIGKILL
    assert protocol.kinds().count("pipe lost") == 3


async def test_output_after_close_is_not_waited_for() -> None:
    with grandchild() as (command, options):
        transport, protocol = await shell(command + "exit 0", **options)
        await protocol.seen("exited")
        assert "lost" not in protocol.kinds()
        transport.close()
        assert await ended(transport, protocol) == 0


@pytest.mark.covers(
    "SubprocessTransport.get_extra_info('subprocess')",
    "SubprocessTransport.get_protocol",
    "SubprocessTransport.get_pid",
)
async def test_facts() -> None:
    transport, protocol = await shell("cat >/dev/null; exit 5")
    assert isinstance(transport, asyncio.SubprocessTransport)
    process = transport.get_extra_info("subprocess")
    assert isinstance(process, subprocess.Popen)
    assert transport.get_pid() == process.pid
    assert transport.get_returncode() is None
    assert transport.get_protocol() is protocol
    assert f"pid={process.pid} running" in repr(transport)
    assert "stdin=" in repr(transport)
    with pytest.raises(NotImplementedError):
        transport.get_pipe_transport(0).pause_reading()
    transport.get_pipe_transport(0).close()
    await ended(transport, protocol)
    assert process.returncode == 5
    assert "returncode=5" in repr(transport)
    assert transport.get_pid() == process.pid


@pytest.mark.parametrize(
    "options",
    [
        {"universal_newlines": True},
        {"bufsize": 4096},
        {"text": True},
        {"encoding": "utf-8"},
        {"errors": "strict"},
    ],
)
async def test_pipes_of_text_are_refused(loop: asyncio.AbstractEventLoop, options: dict[str, Any]) -> None:
    for start in (loop.subprocess_exec, loop.subprocess_shell):
        with pytest.raises(ValueError, match="must be"):
            await start(asyncio.SubprocessProtocol, "true", **options)
    with pytest.raises(ValueError, match="shell must be False"):
        await loop.subprocess_exec(asyncio.SubprocessProtocol, "true", shell=True)
    with pytest.raises(ValueError, match="shell must be True"):
        await loop.subprocess_shell(asyncio.SubprocessProtocol, "true", shell=False)
    with pytest.raises(ValueError, match="cmd must be a string"):
        await loop.subprocess_shell(asyncio.SubprocessProtocol, ["true"])  # type: ignore[arg-type]


async def test_program_that_does_not_exist(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(FileNotFoundError):
        await loop.subprocess_exec(asyncio.SubprocessProtocol, "/no/such/program")


@pytest.mark.parametrize("ticks", [0, 1, 2, 3, 4])
async def test_start_that_is_cancelled_leaves_no_process(loop: asyncio.AbstractEventLoop, ticks: int) -> None:
    made: list[ProcessRecorder] = []

    def factory() -> ProcessRecorder:
        made.append(ProcessRecorder())
        return made[0]

    task = asyncio.ensure_future(loop.subprocess_exec(factory, "sleep", "60"))
    await settle(ticks)
    if task.done():
        transport, protocol = task.result()
        transport.close()
        await ended(transport, protocol)
        return
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle(8)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.differs(
    "EventLoop.subprocess_exec",
    why="If a pipe cannot be connected, the process is killed and reaped before the error is raised.",
)
@pytest.mark.loopcore_only
@pytest.mark.parametrize("failing", ["connect_read_pipe", "connect_write_pipe"])
async def test_start_whose_pipes_fail_leaves_no_process(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    async def fail(factory: Any, pipe: Any) -> Any:
        raise OSError("no")

    monkeypatch.setattr(loop, failing, fail)
    with pytest.raises(OSError, match="no"):
        await loop.subprocess_exec(ProcessRecorder, "sleep", "60")
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    await settle()


@pytest.mark.loopcore_only
async def test_what_is_no_protocol_leaves_no_process(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(AttributeError):
        await loop.subprocess_exec(lambda: None, "sleep", "60")  # type: ignore[arg-type, return-value]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    await settle()


@pytest.mark.loopcore_only  # asyncio's watchers keep the transport
def test_transport_that_nobody_closed_warns_and_kills(loop_factory: Callable[[], Any]) -> None:
    async def main() -> Any:
        transport, _ = await shell("exec sleep 60", stdin=None, stdout=None, stderr=None)
        return transport.get_extra_info("subprocess")

    def drop_it() -> Any:
        loop = loop_factory()
        process = run(loop, main())
        loop.close()
        del loop
        gc.collect()
        return process

    with pytest.warns(ResourceWarning, match="unclosed transport"):
        process = drop_it()
    assert process.wait() == -signal.SIGKILL
