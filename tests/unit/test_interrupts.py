"""Signals that come while the loop waits, in a thread that is not the main one: so Ctrl-C comes on Windows."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop


def interrupt_from_a_thread() -> threading.Thread:
    thread = threading.Thread(target=signal.raise_signal, args=(signal.SIGINT,))
    thread.start()
    return thread


@pytest.mark.loopcore_only
def test_a_handler_of_the_loop_runs_when_another_thread_gets_the_signal(loop: Loop) -> None:
    loop.add_signal_handler(signal.SIGINT, loop.stop)
    threads: list[threading.Thread] = []
    loop.call_soon(lambda: threads.append(interrupt_from_a_thread()))
    loop.run_forever()
    threads[0].join()
    assert loop.remove_signal_handler(signal.SIGINT)


@pytest.mark.loopcore_only
@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere a signal interrupts the call of the main thread")
def test_an_interrupt_ends_a_wait_without_any_handler(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()
    backend = type(loop.backend)  # type: ignore[attr-defined]
    wait = backend.wait

    def noted_wait(self: Any, timeout: float | None) -> Any:
        if timeout is None:
            waits.set()
        return wait(self, timeout)

    monkeypatch.setattr(backend, "wait", noted_wait)

    def interrupt() -> None:
        waits.wait()
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    thread.join()


@pytest.mark.loopcore_only
@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere nothing is done for a run")
def test_a_run_leaves_the_programs_own_wakeup_descriptor_alone(loop_factory: Callable[[], Loop]) -> None:
    import socket

    near, far = socket.socketpair()
    far.setblocking(False)
    loop = loop_factory()
    with near, far:
        signal.set_wakeup_fd(far.fileno())
        try:
            loop.run_until_complete(asyncio.sleep(0))
            assert signal.set_wakeup_fd(-1) == far.fileno()
        finally:
            signal.set_wakeup_fd(-1)
    loop.run_until_complete(asyncio.sleep(0))
    assert signal.set_wakeup_fd(-1) == -1
