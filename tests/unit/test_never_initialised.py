"""Objects whose `__init__` never ran, and misuse of those of a loop at work: errors, never the end of the process.

In the compiled build attributes are C's, and None or zero at first. `misuse.py` finds every type and tries it.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore.kernel.scheduler import Scheduler
from loopcore.selection.discovery import list_backends
from tests.interpreter import INTERPRETED

MISUSE = Path(__file__).with_name("misuse.py")


def killed_by_misuse(*words: str) -> list[str]:
    """Return the uses that killed the process they were tried in."""
    command = [sys.executable, "-W", "ignore", str(MISUSE), *words]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    *killed, last = result.stdout.splitlines() or [""]
    assert (result.returncode, last) == (0, "survived"), result.stderr
    return killed


@pytest.mark.parametrize("package", ["loopcore.", "loopcore_backends."])
def test_using_an_object_that_was_never_initialised_ends_no_process(package: str) -> None:
    """Issue 32: None, numbers and bare objects of the right types, in every place of every extension type."""
    assert killed_by_misuse("never-initialised", package) == []


@pytest.mark.skipif(INTERPRETED, reason="attributes are Python's own, which raise")
@pytest.mark.parametrize("backend", ["epoll", "uring"])
def test_misusing_the_objects_of_a_loop_at_work_ends_no_process(backend: str) -> None:
    """Issue 32: every attribute is called with and set to what it is not meant for, then the loop goes on."""
    if backend not in {row.name for row in list_backends() if row.available}:
        pytest.skip(f"no {backend} here")
    assert killed_by_misuse("in-use", "loopcore", backend) == []


TASKS = """
import contextlib
import loopcore

async def main():
    pass

async def wait(future):
    await future

def wait_for(future):
    with contextlib.closing(loopcore.new_event_loop()) as loop:
        loop.create_task(wait(future))
        loop.call_soon(loop.stop)
        loop.run_forever()
        future.set_result(1)

bare = loopcore.EventLoop.__new__(loopcore.EventLoop)
for use in (
    lambda: bare.create_task(main()),
    lambda: bare.run_until_complete(main()),
    lambda: loopcore.Task(main(), loop=bare),
    lambda: loopcore.Future(loop=bare).set_result(1),
    lambda: wait_for(loopcore.Future.__new__(loopcore.Future)),
    lambda: wait_for(loopcore.Task.__new__(loopcore.Task)),
):
    with contextlib.suppress(Exception):
        use()
print("survived")
"""


def test_tasks_and_futures_of_a_loop_that_was_never_initialised_end_no_process() -> None:
    command = [sys.executable, "-W", "ignore", "-c", TASKS]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, "survived\n"), result.stderr


UNTIL_THE_END = """
import sys

import loopcore

class Bare(loopcore.Future):
    def __init__(self):
        pass

loop = loopcore.new_event_loop()
try:
    loopcore.Task(5, loop=loop)
except TypeError as error:
    sys.refused = error
loop.close()
sys.bare = Bare()
"""


def test_what_was_never_initialised_ends_in_silence_with_the_interpreter() -> None:
    command = [sys.executable, "-W", "ignore", "-c", UNTIL_THE_END]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.loopcore_only
def test_task_with_something_else_for_a_context_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    """Issue 32: each of its steps failed, and ended the tick."""
    coroutine = asyncio.sleep(0)
    with pytest.raises(TypeError, match=r"context must be a contextvars.Context, not dict"):
        loop.create_task(coroutine, context={})  # type: ignore[arg-type]
    coroutine.close()
    loop.run_until_complete(asyncio.sleep(0))


def test_debug_mode_of_a_loop_that_was_never_initialised_writes_nowhere() -> None:
    """Issue 32: the flag was written behind None."""
    bare = loopcore.EventLoop.__new__(loopcore.EventLoop)
    with contextlib.suppress(AttributeError):  # interpreted
        Scheduler.set_debug(bare, True)


def test_write_of_a_driver_whose_scheduler_was_never_initialised_ends_no_process():
    """Issue 32: C code appended to the list of flushes, which such a scheduler does not have."""

    async def main() -> None:
        one, other = socket.socketpair()
        with other:
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=one)
            driver: Any = transport._driver
            scheduler, driver.scheduler = driver.scheduler, loopcore.EventLoop.__new__(loopcore.EventLoop)
            try:
                with contextlib.suppress(AttributeError):
                    transport.write(b"x")
            finally:
                driver.scheduler = scheduler
                transport.abort()

    loopcore.run(main())
