"""Programs whose trace is looked at, and traces made by hand."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import loopcore
from loopcore_plugins.trace import Trace
from loopcore_plugins.trace.reading import load

Event = dict[str, Any]


async def everything() -> None:
    """Callbacks, timers, tasks that wake each other, a connection, a job, a signal-free life."""
    loop = asyncio.get_running_loop()
    loop.call_soon(ordinary_callback)
    loop.call_later(0.001, ordinary_callback)
    await asyncio.gather(*(sleeper(number) for number in range(3)))
    queue: asyncio.Queue[int] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(consumer(queue))
        group.create_task(producer(queue))
    told = threading.Event()
    job = loop.run_in_executor(None, blocking_job, told)
    told.set()  # it ends when the loop waits for it, however slow the machine is: else no arrow leads back
    await job
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"x\n")
    assert await reader.readline() == b"x\n"
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


def ordinary_callback() -> None:
    """Do nothing, by a name that is looked for."""


async def sleeper(number: int) -> None:
    await asyncio.sleep(0.001 * number)


async def consumer(queue: "asyncio.Queue[int]") -> None:
    for _ in range(3):
        await queue.get()


async def producer(queue: "asyncio.Queue[int]") -> None:
    for number in range(3):
        queue.put_nowait(number)
        await asyncio.sleep(0)


def blocking_job(event: threading.Event) -> None:
    event.wait()
    time.sleep(0.005)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()
    await writer.wait_closed()


def traced(directory: Path, backend: str, **options: Any) -> tuple[Trace, list[Event]]:
    """Run `everything` under a trace; return the plugin and the events of its file."""
    plugin = Trace(file=directory / "trace.json", **options)
    loopcore.run(everything(), backend=backend, plugins=[plugin])
    return plugin, load(plugin.path)


def a_slice(name: str, begin: float, took: float, track: int = 1, category: str = "callback") -> Event:
    return {"ph": "X", "name": name, "cat": category, "pid": 1, "tid": track, "ts": begin, "dur": took}


def an_arrow(number: int, begin: float, end: float, *, tracks: tuple[int, int] = (1, 1)) -> list[Event]:
    common = {"name": "woken", "cat": "flow", "pid": 1, "id": number}
    return [
        {**common, "ph": "s", "ts": begin, "tid": tracks[0]},
        {**common, "ph": "f", "bp": "e", "ts": end, "tid": tracks[1]},
    ]
