"""Processes to attach to: a server that echoes lines, and describes itself when asked."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 30.0

SERVER = """
import asyncio, gc, json, os, signal, sys, threading, tracemalloc

def state():
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "kernel threads": len(os.listdir("/proc/self/task")),
        "descriptors": sorted(open_descriptors()),
        "modules": sorted(sys.modules),
        "hooks": [repr(each) for each in (gc.callbacks, sys.gettrace(), sys.getprofile(), threading.gettrace())],
        "monitoring": [sys.monitoring.get_tool(number) for number in range(6)],
        "tracemalloc": tracemalloc.is_tracing(),
        "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "main": sorted(vars(sys.modules["__main__"])),
        "tasks": len(asyncio.all_tasks()),
        "plugins": [name for name, _ in probes.plugins()] if (probes := loop_probes()) else [],
    }

def open_descriptors():
    for number in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # listing took one
            pass

def loop_probes():
    return getattr(asyncio.get_running_loop(), "probes", None)

async def answer(reader, writer):
    while line := await reader.readline():
        if line == b"state\\n":
            line = json.dumps(state()).encode() + b"\\n"
        elif line == b"block\\n":
            sys.stdin.readline()
        writer.write(line)
        await writer.drain()
    writer.close()

async def inner():
    await asyncio.get_running_loop().create_future()

async def outer():
    async with asyncio.TaskGroup() as group:
        group.create_task(inner(), name="inner")

async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    outermost = asyncio.create_task(outer(), name="outer")
    await asyncio.sleep(0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await outermost

async def second():
    started.set()
    await asyncio.get_running_loop().create_future()

if "second" in sys.argv:
    started = threading.Event()
    threading.Thread(target=lambda: asyncio.run(second()), name="second", daemon=True).start()
    started.wait()
if "sleeping" in sys.argv:
    import time
    async def sleeps():
        print(0, flush=True)
        time.sleep(1000)
    asyncio.run(sleeps())
elif "uvloop" in sys.argv:
    import uvloop
    uvloop.run(main())
elif "loopcore" in sys.argv:
    import loopcore
    loopcore.run(main())
else:
    asyncio.run(main())
"""


class Target:
    """A running server, and a connection to it."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self.process = process
        self.pid = process.pid
        self.port = port
        self._sock = socket.create_connection(("127.0.0.1", port), PATIENCE) if port else None
        self._answers = self._sock.makefile("rb") if self._sock is not None else None

    def say(self, line: str) -> None:
        assert self._sock is not None
        self._sock.sendall(f"{line}\n".encode())

    def hear(self) -> str:
        assert self._answers is not None
        return self._answers.readline().decode().rstrip("\n")

    def state(self) -> dict[str, Any]:
        self.say("state")
        state: dict[str, Any] = json.loads(self.hear())
        return state

    def settled_state(self) -> dict[str, Any]:
        """Return the state of a program that has done all for the first time."""
        self.state()
        return self.state()

    def close(self) -> None:
        if self._answers is not None and self._sock is not None:
            self._answers.close()
            self._sock.close()


@contextmanager
def running(*arguments: str) -> Iterator[Target]:
    """Run SERVER; it is killed at the end."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SERVER, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            target = Target(process, int(process.stdout.readline()))
            try:
                yield target
            finally:
                target.close()
        finally:
            process.kill()


def until(condition: Callable[[], Any], what: str) -> Any:
    """Return the first true value of `condition()`, which asks another process, and so takes its time."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"still not so: {what}"
        time.sleep(0.02)
    return value


def until_as_before(target: Target, before: dict[str, Any]) -> None:
    """Wait until the program has its former state; fail with the difference."""
    end = time.monotonic() + PATIENCE / 6
    while (now := target.state()) != before and time.monotonic() < end:
        time.sleep(0.02)
    changed = {name: (before[name], now[name]) for name in now if now[name] != before[name]}
    assert not changed, f"before and after: {changed}"


def loopcore(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, timeout=2 * PATIENCE)


def command(*arguments: str) -> list[str]:
    """Return the command line of a command."""
    return [sys.executable, "-m", "loopcore", *arguments]


def exists(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")
