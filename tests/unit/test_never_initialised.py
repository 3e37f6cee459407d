"""Objects whose `__init__` never ran: using them is an error, never the end of the process.

In the compiled build their attributes are C's, and None or zero. Each class is tried in a process of its own.
"""

import importlib
import inspect
import subprocess
import sys

import pytest

import loopcore
from loopcore.build_info import hot_sources

USE = """
import contextlib, importlib, io, logging, sys
logging.disable()
sys.unraisablehook = lambda unraisable: None
module, name = sys.argv[1:]
cls = getattr(importlib.import_module(module), name)
ARGUMENTS = [(), (print,), (1,), (1, print), (b"", None)]

def use(attribute, arguments):
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        value = getattr(cls.__new__(cls), attribute)
        if callable(value):
            value = value(*arguments)
        if hasattr(value, "close"):
            value.close()  # a coroutine

for attribute in dir(cls):
    if not attribute.startswith("_") or attribute == "__repr__" or attribute in vars(cls) and attribute[:2] == "__":
        for arguments in ARGUMENTS:
            use(attribute, arguments)
print("survived")
"""


def classes() -> list[tuple[str, str]]:
    """The classes of which a program gets objects: what loopcore exports, the bases of its loop, transports."""
    found = {cls: None for cls in vars(loopcore).values() if inspect.isclass(cls)}
    found |= dict.fromkeys(loopcore.EventLoop.__mro__)
    for name in hot_sources():
        if name.startswith("loopcore.transports."):
            found |= dict.fromkeys(filter(inspect.isclass, vars(importlib.import_module(name)).values()))
    return [(cls.__module__, cls.__name__) for cls in found if cls.__module__.startswith("loopcore.")]


@pytest.mark.parametrize(("module", "name"), classes())
def test_using_an_object_that_was_never_initialised_ends_no_process(module: str, name: str) -> None:
    command = [sys.executable, "-c", USE, module, name]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout.strip().rpartition("\n")[2]) == (0, "survived"), result.stderr


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
