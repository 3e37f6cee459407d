"""Signal handlers that run as callbacks of the loop."""

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loopcore.services.signals import Signals

Loop = asyncio.AbstractEventLoop

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="asyncio has no signal handlers on Windows")


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {sig: signal.getsignal(sig) for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)}
    yield
    assert signal.set_wakeup_fd(-1) == -1
    for sig, handler in before.items():
        signal.signal(sig, handler)


def kill(sig: int) -> None:
    os.kill(os.getpid(), sig)


@pytest.mark.covers("EventLoop.add_signal_handler(args)")
def test_handler_runs_with_its_arguments_in_the_loop(loop: Loop) -> None:
    seen: list[Any] = []

    def handle(*args: Any) -> None:
        seen.append((args, asyncio.get_running_loop()))
        loop.stop()

    loop.add_signal_handler(signal.SIGUSR1, handle, 1, "two")
    loop.call_soon(kill, signal.SIGUSR1)
    loop.run_forever()
    assert seen == [((1, "two"), loop)]


def test_signal_ends_a_blocking_wait(loop: Loop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    sender = threading.Timer(0.05, kill, [signal.SIGUSR1])
    sender.start()
    loop.run_forever()  # nothing else would end it
    sender.join()


def test_later_handler_takes_the_place_of_the_earlier(loop: Loop) -> None:
    seen: list[int] = []
    loop.add_signal_handler(signal.SIGUSR1, seen.append, 1)
    loop.add_signal_handler(signal.SIGUSR1, lambda: (seen.append(2), loop.stop()))
    loop.call_soon(kill, signal.SIGUSR1)
    loop.run_forever()
    assert seen == [2]


def test_signals_have_handlers_of_their_own(loop: Loop) -> None:
    seen: list[int] = []

    def note(sig: int) -> None:
        seen.append(sig)
        if len(seen) == 2:
            loop.stop()

    for sig in (signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(sig, note, sig)
    loop.call_soon(kill, signal.SIGUSR1)
    loop.call_soon(kill, signal.SIGUSR2)
    loop.run_forever()
    assert sorted(seen) == [signal.SIGUSR1, signal.SIGUSR2]


@pytest.mark.differs(
    "EventLoop.add_signal_handler",
    why="Signals pass through a pipe, which holds 65,536; asyncio's socket pair loses every signal after 278.",
)
@pytest.mark.loopcore_only
def test_no_signal_is_lost_among_many(loop: Loop) -> None:
    # asyncio's socket pair is full after 278 and loses what comes then, SIGUSR2 too.
    seen: list[int] = []

    def storm() -> None:
        for _ in range(2000):
            kill(signal.SIGUSR1)
        kill(signal.SIGUSR2)

    loop.add_signal_handler(signal.SIGUSR1, seen.append, 1)
    loop.add_signal_handler(signal.SIGUSR2, loop.stop)
    loop.call_soon(storm)
    loop.run_forever()
    assert len(seen) == 2000


@pytest.mark.covers("EventLoop.remove_signal_handler")
def test_removed_handler_gives_the_default_back(loop: Loop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, print)
    loop.add_signal_handler(signal.SIGINT, print)
    assert loop.remove_signal_handler(signal.SIGUSR1) is True
    assert loop.remove_signal_handler(signal.SIGINT) is True
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    assert loop.remove_signal_handler(signal.SIGUSR1) is False


def test_last_handler_removed_gives_the_wakeup_descriptor_back(loop: Loop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, print)
    loop.add_signal_handler(signal.SIGUSR2, print)
    loop.remove_signal_handler(signal.SIGUSR1)
    used = signal.set_wakeup_fd(-1)
    assert used != -1
    signal.set_wakeup_fd(used)
    loop.remove_signal_handler(signal.SIGUSR2)
    assert signal.set_wakeup_fd(-1) == -1


def test_closing_the_loop_removes_all_handlers(loop: Loop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, print)
    loop.add_signal_handler(signal.SIGUSR2, print)
    loop.close()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL


@pytest.mark.differs("EventLoop.close", why="A signal wake-up descriptor that other code has set since stays set.")
@pytest.mark.loopcore_only
def test_foreign_wakeup_descriptor_is_left_in_place(loop: Loop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, print)
    mine, other = socket.socketpair()
    with mine, other:
        mine.setblocking(False)
        signal.set_wakeup_fd(mine.fileno())
        loop.close()
        assert signal.set_wakeup_fd(-1) == mine.fileno()


class Full:
    """A loop that can watch no further descriptor."""

    def __init__(self, loop: Any) -> None:
        self.loop, self._readiness = loop, self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop._readiness, name)

    def set_reader(self, fd: int, runnable: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.loopcore_only
def test_after_a_handler_that_could_not_be_added_the_next_one_runs(loop: Any) -> None:
    signals = Signals(Full(loop))  # type: ignore[arg-type]
    with pytest.raises(OSError, match="No space left"):
        signals.add(signal.SIGUSR1, loop.stop, ())
    assert signal.set_wakeup_fd(-1) == -1
    signals._host = loop
    signals.add(signal.SIGUSR1, loop.stop, ())
    loop.call_soon(kill, signal.SIGUSR1)
    loop.run_forever()
    signals.close()


@pytest.mark.loopcore_only
def test_a_renewed_channel_is_not_inherited_and_takes_no_descriptors_place(loop: Any) -> None:
    signals = Signals(loop)
    signals.add(signal.SIGUSR1, loop.stop, ())
    channel = signals._channel
    assert channel is not None
    mine, other = socket.socketpair()
    with mine, other:
        mine.setblocking(False)
        signal.set_wakeup_fd(mine.fileno())
        signals.renew()
        assert signal.set_wakeup_fd(channel.writing) == mine.fileno()
    assert not os.get_inheritable(channel.reading)
    assert not os.get_inheritable(channel.writing)
    signals.close()


@pytest.mark.loopcore_only
def test_a_channel_that_cannot_be_made_leaves_no_descriptor(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, blocking: bool) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "set_blocking", refuse)
        with pytest.raises(PermissionError):
            loop.add_signal_handler(signal.SIGUSR1, loop.stop)


@pytest.mark.parametrize("method", ["add_signal_handler", "remove_signal_handler"])
def test_what_is_no_signal_is_refused(loop: Loop, method: str) -> None:
    call: Callable[..., Any] = getattr(loop, method)
    rest = [print] if method == "add_signal_handler" else []
    with pytest.raises(TypeError, match=r"^sig must be an int, not 'SIGINT'$"):
        call("SIGINT", *rest)
    with pytest.raises(ValueError, match=r"^invalid signal number 1000$"):
        call(1000, *rest)
    with pytest.raises(ValueError, match=r"^invalid signal number -1$"):
        call(-1, *rest)


def test_signal_that_cannot_be_caught_is_refused(loop: Loop) -> None:
    with pytest.raises(RuntimeError, match=r"^sig 9 cannot be caught$"):
        loop.add_signal_handler(9, print)
    assert signal.set_wakeup_fd(-1) == -1


def test_coroutine_functions_are_refused(loop: Loop) -> None:
    async def handle() -> None: ...

    with pytest.raises(TypeError, match=r"^coroutines cannot be used with add_signal_handler\(\)$"):
        loop.add_signal_handler(signal.SIGUSR1, handle)


def test_other_threads_are_refused(loop: Loop) -> None:
    errors: list[BaseException] = []

    def add() -> None:
        try:
            loop.add_signal_handler(signal.SIGUSR1, print)
        except RuntimeError as exc:
            errors.append(exc)

    thread = threading.Thread(target=add)
    thread.start()
    thread.join()
    (error,) = errors
    assert str(error).startswith("set_wakeup_fd only works in main thread")  # of what, each interpreter says in its way


def test_closed_loop_refuses_handlers(loop: Loop) -> None:
    loop.close()
    with pytest.raises(RuntimeError, match=r"^Event loop is closed$"):
        loop.add_signal_handler(signal.SIGUSR1, print)


def test_failing_handler_is_reported_and_stays(loop: Loop) -> None:
    faults: list[Any] = []

    def handle() -> None:
        if faults:
            loop.stop()
        raise ZeroDivisionError

    def note(_: Any, context: dict[str, Any]) -> None:
        faults.append(context["exception"])
        kill(signal.SIGUSR1)

    loop.set_exception_handler(note)
    loop.add_signal_handler(signal.SIGUSR1, handle)
    loop.call_soon(kill, signal.SIGUSR1)
    loop.run_forever()
    loop.remove_signal_handler(signal.SIGUSR1)
    assert [type(fault) for fault in faults] == [ZeroDivisionError, ZeroDivisionError]


CTRL_C = """
import asyncio, os, signal, sys, threading
import {module}

async def main():
    threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("cancelled", flush=True)
        raise

try:
    {module}.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("module", ["loopcore", "asyncio"])
def test_ctrl_c_cancels_the_main_task_and_ends_the_program(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C.format(module=module)], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["cancelled", "interrupted"], "")


def test_a_loop_with_handlers_that_is_closed_in_another_thread_is_closed(loop: Loop) -> None:
    """The error is the interpreter's: only the main thread may set a handler."""
    raised: list[BaseException] = []

    def close() -> None:
        try:
            loop.close()
        except ValueError as error:
            raised.append(error)

    loop.add_signal_handler(signal.SIGUSR1, print)
    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    assert "main thread" in str(raised[0])
    assert loop.is_closed()
    signal.set_wakeup_fd(-1)
