"""Subprocesses: what is refused, what Popen is told, and what their transports know."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.transports.process_support import ProcessRecorder, ended, shell
from tests.transports.recorder import run

Loop = asyncio.AbstractEventLoop

REFUSALS: list[tuple[str, Any, str]] = [
    ("universal_newlines", True, "universal_newlines must be False"),
    ("bufsize", 4096, "bufsize must be 0"),
    ("text", True, "text must be False"),
    ("encoding", "utf-8", "encoding must be None"),
    ("errors", "strict", "errors must be None"),
]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        pytest.param(*case, marks=pytest.mark.covers(f"EventLoop.subprocess_exec({case[0]})"))
        for case in [*REFUSALS, ("shell", True, "shell must be False")]
    ],
)
def test_a_program_is_not_started_with(loop: Loop, option: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        run(loop, loop.subprocess_exec(ProcessRecorder, "true", **{option: value}))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        pytest.param(*case, marks=pytest.mark.covers(f"EventLoop.subprocess_shell({case[0]})"))
        for case in [*REFUSALS, ("shell", False, "shell must be True")]
    ],
)
def test_a_shell_is_not_started_with(loop: Loop, option: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        run(loop, loop.subprocess_shell(ProcessRecorder, "true", **{option: value}))


@pytest.mark.covers("EventLoop.subprocess_exec(args, kwargs)")
async def test_the_rest_is_for_popen(loop: Loop, tmp_path: Path) -> None:
    transport, protocol = await loop.subprocess_exec(
        ProcessRecorder,
        "sh",
        "-c",
        'pwd; echo "$WORD"',
        cwd=tmp_path,
        env={"WORD": "mine", "PATH": "/usr/bin:/bin"},
    )
    assert await ended(transport, protocol) == 0
    assert protocol.output(1).decode().split() == [str(tmp_path), "mine"]


@pytest.mark.parametrize(
    ("send", "number"),
    [
        pytest.param(
            lambda transport: transport.kill(), signal.SIGKILL, marks=pytest.mark.covers("SubprocessTransport.kill")
        ),
        pytest.param(
            lambda transport: transport.terminate(),
            signal.SIGTERM,
            marks=pytest.mark.covers("SubprocessTransport.terminate"),
        ),
        pytest.param(
            lambda transport: transport.send_signal(signal.SIGUSR1),
            signal.SIGUSR1,
            marks=pytest.mark.covers("SubprocessTransport.send_signal"),
        ),
    ],
)
async def test_a_process_gets_the_signal(loop: Loop, send: Callable[[Any], None], number: int) -> None:
    transport, protocol = await loop.subprocess_exec(ProcessRecorder, "sleep", "60")
    send(transport)
    assert await ended(transport, protocol) == -number


@pytest.mark.covers("SubprocessTransport.set_protocol", "SubprocessTransport.get_protocol")
async def test_another_protocol_hears_the_rest() -> None:
    transport, first = await shell("cat")
    second = ProcessRecorder()
    second.transport = transport
    transport.set_protocol(second)
    assert transport.get_protocol() is second
    stdin = transport.get_pipe_transport(0)
    stdin.write(b"for the second")
    stdin.close()
    assert await ended(transport, second) == 0
    assert second.output(1) == b"for the second"
    assert first.kinds() == ["made"]


@pytest.mark.covers("SubprocessTransport.get_extra_info(default)")
async def test_unknown_facts_have_a_default() -> None:
    transport, protocol = await shell("true")
    assert transport.get_extra_info("nothing") is None
    assert transport.get_extra_info("nothing", 5) == 5
    await ended(transport, protocol)
