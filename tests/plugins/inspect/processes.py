"""What the tests of inspect share: processes that are looked at, and a folder of their own for the sockets."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loopcore_plugins.inspect.client import Client, connect, find

PATIENCE = 30.0
"""Seconds after which a test gives up."""

SERVER = """
import asyncio, sys, time
import loopcore

async def answer(reader, writer):
    while data := await reader.read(4096):
        writer.write(data)
        await writer.drain()

async def client(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        writer.write(b"x" * 1000)
        await reader.readexactly(1000)
        await asyncio.sleep(0.005)

async def query():
    await asyncio.get_running_loop().create_future()

async def report():
    await asyncio.gather(query(), query())

async def blocker():
    while True:
        await asyncio.sleep(0.4)
        time.sleep(0.4)

class Recorder:
    @loopcore.hookimpl
    def loopcore_loop_closing(self, loop):
        pass

    def history(self, task, limit):
        return [{"at_ns": time.monotonic_ns() - 12_500_000_000, "what": "woken", "code": "by client"}][:limit]

async def main():
    if "recorder" in sys.argv:
        asyncio.get_running_loop().probes.register(Recorder(), "recorder")
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(client(port), name=f"client-{number}")
        group.create_task(report(), name="report")
        if "blocking" in sys.argv:
            group.create_task(blocker(), name="blocker")
        print("ready", flush=True)

loopcore.run(main(), plugins=["inspect"])
"""
"""An echo server with clients, and a task that awaits two others. Its `recorder` is one as far as inspect knows it."""


@contextmanager
def socket_folder() -> Iterator[Path]:
    """Yield a folder for sockets. Its path is short, as theirs must be; pytest's are not."""
    with tempfile.TemporaryDirectory(prefix="lc-") as name:
        yield Path(name)


@contextmanager
def running(
    folder: Path, program: str | Path, *arguments: str, backend: str = "auto", cwd: Path | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """Run `program`, a text or a file, which says ready when it is; it is killed at the end."""
    environment = os.environ | {"LOOPCORE_INSPECT_DIR": str(folder), "LOOPCORE_BACKEND": backend}
    command = [sys.executable, "-W", "ignore::DeprecationWarning"]
    command += [*([str(program)] if isinstance(program, Path) else ["-c", program]), *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=cwd
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def server_file(folder: Path) -> Path:
    """Return the path of a file with SERVER, which has a name that can be shown."""
    path = folder / "app" / "server.py"
    path.parent.mkdir()
    path.write_text(SERVER, encoding="utf-8")
    return path


def client_of(process: "subprocess.Popen[str]", number: int = 1) -> Client:
    """Return a connection to a loop of the process; the caller's LOOPCORE_INSPECT_DIR is the folder."""
    return connect(find(f"{process.pid}.{number}")[0])


def until(condition: Callable[[], Any], what: str) -> Any:
    """Return the first true value of `condition()`, which asks another process, and so takes its time."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"still not so: {what}"
        time.sleep(0.02)  # a process that is asked all the time gets nothing done
    return value


def loopcore(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "loopcore", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE,
    )
