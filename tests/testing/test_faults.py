"""Loops bear what backends may do, and seldom do."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.errors import UsageError
from loopcore.loop import EventLoop
from loopcore.testing.conformance import BackendContract
from loopcore.testing.conformance.loop.transports import Transports
from loopcore.testing.faults import Interruptions
from tests.testing.faulty import FaultyProactor, FaultySelect

CANNOT = {"hooks": "which waits end for nothing is chance"}


class TestOverFaultyReadiness(BackendContract):
    backend = "tests.testing.faulty:FaultySelect"
    options = {"seed": 1}
    levels = ("shape", "loop")
    cannot = CANNOT


class TestOverFaultyCompletions(BackendContract):
    backend = "tests.testing.faulty:FaultyProactor"
    options = {"seed": 2}
    levels = ("shape", "loop")
    cannot = CANNOT


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (FaultySelect, {"early end", "one at a time", "spurious event", "stale event"}),
        (FaultyProactor, {"early end", "late completion", "short read"}),
    ],
)
def test_every_fault_is_injected(make: Callable[[int], Any], kinds: set[str]) -> None:
    backend = make(3)
    loop = EventLoop(backend)
    Transports().test_connections_do_not_starve_each_other(loop)
    loop.close()
    assert {kind for kind, count in backend.injected.items() if count} >= kinds


ENOUGH = 30
unix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals for a thread")


async def served_until(enough: Callable[[], bool]) -> int:
    """Exchange streams with a server, again and again, and count the rounds."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    rounds = 0
    async with await asyncio.start_server(shout, "127.0.0.1", 0) as server:
        while not rounds or not enough():
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"a" * 300_000)
            writer.write_eof()
            assert await reader.read() == b"A" * 300_000
            writer.close()
            await writer.wait_closed()
            rounds += 1
    return rounds


@unix_only
def test_interrupted_system_calls_lose_nothing(loop: asyncio.AbstractEventLoop) -> None:
    with Interruptions() as interruptions:
        rounds = loop.run_until_complete(served_until(lambda: interruptions.count >= ENOUGH))
    assert interruptions.count >= ENOUGH
    assert rounds


@unix_only
def test_interruptions_come_into_a_system_call_and_end_with_it() -> None:
    before = signal.getsignal(signal.SIGUSR2)
    reader, writer = os.pipe()
    with Interruptions() as interruptions:
        thread = threading.Thread(target=answer_when, args=(lambda: interruptions.count >= ENOUGH, writer))
        thread.start()
        assert os.read(reader, 1) == b"x", "the call goes on until there is something to read (PEP 475)"
        thread.join()
        count = interruptions.count
    assert count >= ENOUGH
    assert signal.getsignal(signal.SIGUSR2) is before
    os.close(reader)
    os.close(writer)


def answer_when(enough: Callable[[], bool], writer: int) -> None:
    pause = threading.Event()
    while not enough():
        pause.wait(0.001)
    os.write(writer, b"x")


@unix_only
def test_handler_is_put_back_if_there_is_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = signal.getsignal(signal.SIGUSR2)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="new thread"):
        Interruptions().__enter__()
    assert signal.getsignal(signal.SIGUSR2) is before


@unix_only
@pytest.mark.parametrize("starts", [True, False], ids=["thread", "no thread"])
def test_a_handler_that_c_code_has_set_becomes_the_default(monkeypatch: pytest.MonkeyPatch, starts: bool) -> None:
    """`signal.signal` returns None for it."""
    set_handler = signal.signal
    before = set_handler(signal.SIGUSR2, signal.SIG_IGN)

    def set_over_c(number: int, handler: Any) -> Any:
        replaced = set_handler(number, handler)
        return None if replaced is signal.SIG_IGN else replaced

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(signal, "signal", set_over_c)
    if not starts:
        monkeypatch.setattr(threading.Thread, "start", refuse)
    try:
        with contextlib.suppress(RuntimeError), Interruptions():
            pass
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
    finally:
        set_handler(signal.SIGUSR2, before)


@unix_only
def test_interruptions_are_refused_where_no_handler_can_be_set() -> None:
    complaints: list[Exception] = []

    def enter() -> None:
        try:
            with Interruptions():
                pass
        except UsageError as exc:
            complaints.append(exc)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert "main thread" in str(complaints[0])
