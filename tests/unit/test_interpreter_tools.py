"""From Python 3.14 on, the interpreter's tools show loopcore's tasks as they show asyncio's."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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


async def group():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(leaf(None), name="in a group")
        tasks.create_task(gathered(), name="gathers")


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


def told(tmp_path: Path, loop: str, tool: str) -> tuple[str, str]:
    """Run the program on a loop; return what it printed of its call graph, and what the tool says of it."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    command = [sys.executable, str(program), loop]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            graph = "".join(iter(process.stdout.readline, "ready\n"))
            seen = subprocess.run(
                [sys.executable, "-m", "asyncio", tool, str(process.pid)],
                check=False,
                capture_output=True,
                text=True,
                timeout=60,
            )
        finally:
            process.kill()
    if "permission" in (seen.stdout + seen.stderr).lower():
        pytest.skip("no right to read another process")
    assert seen.returncode == 0, seen.stderr
    return normal(graph), normal(seen.stdout)


@pytest.mark.parametrize("tool", ["ps", "pstree"])
def test_tools_of_asyncio_tell_the_same(tmp_path: Path, tool: str) -> None:
    graph, seen = told(tmp_path, "loopcore", tool)
    assert (graph, seen) == told(tmp_path, "asyncio", tool)
    assert "in a group" in seen
