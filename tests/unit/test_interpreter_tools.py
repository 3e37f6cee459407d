"""From Python 3.14 on, the interpreter's tools show loopcore's tasks as they show asyncio's."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest

import loopcore

pytestmark = [
    pytest.mark.skipif(sys.version_info < (3, 14), reason="the tools are of Python 3.14"),
    pytest.mark.skipif(sys.platform != "linux", reason="reading another process takes a debugger's rights elsewhere"),
]

PROGRAM = """
import asyncio
import sys

import loopcore


async def leaf(ready):
    if ready is not None:
        asyncio.print_call_graph()
        print("ready", flush=True)
    await asyncio.sleep(60)


def spin():
    sum(range(20_000))


async def work():
    while True:
        spin()
        await asyncio.sleep(0)


async def group():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(leaf(None), name="in a group")
        tasks.create_task(gathered(), name="gathers")
        if "busy" in sys.argv:
            tasks.create_task(work(), name="works")


async def gathered():
    await asyncio.gather(leaf(None), leaf(True))


async def main():
    await asyncio.create_task(group(), name="awaited")


(loopcore.run if sys.argv[1] == "loopcore" else asyncio.run)(main())
"""


def normal(text: str) -> str:
    """Return what a tool wrote without addresses, numbers of tasks and threads, and the width of columns."""
    text = re.sub(r"0x[0-9a-f]+|\b\d{3,}\b", "N", text)
    return re.sub(r" +|-+", " ", text)


@contextmanager
def program(tmp_path: Path, *arguments: str) -> Iterator[tuple[int, str]]:
    """Run the program; give the number of its process, and what it printed of its call graph."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    with subprocess.Popen([sys.executable, str(file), *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, "".join(takewhile(lambda line: line != "ready\n", process.stdout))
        finally:
            process.kill()


def output_of(*command: str) -> str:
    """Return what a tool of the standard library prints."""
    seen = subprocess.run([sys.executable, "-m", *command], check=False, capture_output=True, text=True, timeout=60)
    if "permission" in (seen.stdout + seen.stderr).lower():
        pytest.skip("no right to read another process")
    assert seen.returncode == 0, seen.stderr
    return seen.stdout


def told(tmp_path: Path, loop: str, tool: str) -> tuple[str, str]:
    """Run the program on a loop; return what it printed of its call graph, and what the tool says of it."""
    with program(tmp_path, loop) as (pid, graph):
        return normal(graph), normal(output_of("asyncio", tool, str(pid)))


@pytest.mark.parametrize("tool", ["ps", "pstree"])
def test_tools_of_asyncio_tell_the_same(tmp_path: Path, tool: str) -> None:
    graph, seen = told(tmp_path, "loopcore", tool)
    assert (graph, seen) == told(tmp_path, "asyncio", tool)
    assert "in a group" in seen


@pytest.mark.skipif(asyncio.Task is asyncio.tasks._PyTask, reason="asyncio's classes in Python have other edges")
async def test_call_graph_of_a_future(loop: asyncio.AbstractEventLoop) -> None:
    async def wait(future: "asyncio.Future[None]") -> None:
        await future

    future = loop.create_future()
    assert asyncio.capture_call_graph(future).awaited_by == ()
    tasks = [asyncio.create_task(wait(future), name=f"waiter {number}") for number in range(3)]
    await asyncio.sleep(0)
    graph = asyncio.capture_call_graph(future)
    assert {waiter.future for waiter in graph.awaited_by} == {*tasks}
    assert {frame.frame.f_code.co_name for waiter in graph.awaited_by for frame in waiter.call_stack} == {"wait"}
    asyncio.future_add_to_awaited_by(future, asyncio.current_task())
    linked = {waiter.future for waiter in asyncio.capture_call_graph(future).awaited_by} - {*tasks}
    assert linked == (set() if isinstance(loop, loopcore.EventLoop) else {asyncio.current_task()})
    asyncio.future_discard_from_awaited_by(future, asyncio.current_task())
    future.set_result(None)
    await asyncio.gather(*tasks)
    assert asyncio.capture_call_graph(future).awaited_by == ()


def sampled(tmp_path: Path, loop: str, mode: str) -> tuple[float, set[tuple[str, ...]]]:
    """Profile the program on a loop for a second; return the percentage of failed samples, and the stacks.

    A stack is the names of its tasks and functions, the outermost first.
    """
    file = tmp_path / f"{loop}.txt"
    tool = ["profiling.sampling", "attach", "--async-aware", "--async-mode", mode, "--blocking", "--duration", "1"]
    with program(tmp_path, loop, "busy") as (pid, _):
        report = output_of(*tool, "--collapsed", "--output", str(file), str(pid))
    failed = re.search(r"Error rate: ([\d.]+)", report)
    assert failed is not None, report
    stacks = (line.rpartition(" ")[0].split(";")[1:] for line in file.read_text(encoding="utf-8").splitlines())
    return float(failed[1]), {tuple(frame.rsplit(":", 2)[1] for frame in stack) for stack in stacks}


@pytest.mark.skipif(sys.version_info < (3, 15), reason="the sampling profiler is new in Python 3.15")
@pytest.mark.parametrize(("mode", "last"), [("all", "work"), ("running", "spin")])
def test_sampling_profiler_sees_the_same_tasks(tmp_path: Path, mode: str, last: str) -> None:
    """Stacks are compared up to `last`: what it calls varies. Samples between two steps show the loop: skipped."""

    def stacks(loop: str) -> set[tuple[str, ...]]:
        for _ in range(3):  # on a busy machine a sample of asyncio's own fails now and then
            failed, found = sampled(tmp_path, loop, mode)
            if failed == 0:
                break
        assert failed == 0
        ended = (stack[: stack.index(last) + 1] if last in stack else stack for stack in found)
        return {stack for stack in ended if "works" not in stack or last in stack}

    seen = stacks("loopcore")
    assert seen == stacks("asyncio")
    assert any(stack[-1] == last for stack in seen)
