"""Shut servers down while event streams and WebSockets are open; print the time, what clients saw, the exit code.

    python -m tests.benchmarks.serving.shutdown [--streams 200] [--websockets 200] [--drain 2] [SERVER]...

For each server: start it with two loops, open the streams and the WebSockets and wait for a message on each, send
SIGTERM, and read every connection to its end. `seconds` is from the signal to the end of the process; a server that
has not ended after --patience seconds is killed. An event stream is complete if its last chunk has come: a proxy
reports anything else as a broken response. A WebSocket counts under the close code that its client has seen.

Without names, all servers whose packages are installed are shut down.
"""

import argparse
import asyncio
import importlib.util
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
LAST_CHUNK = b"0\r\n\r\n"


class Server(NamedTuple):
    """A server to shut down."""

    packages: tuple[str, ...]
    arguments: tuple[str, ...]
    """Of `python -m`; {port} and {drain} are filled in."""


def _serve(*arguments: str, app: str = "deaf") -> tuple[str, ...]:
    return ("loopcore", "serve", f"apps:{app}", "--port", "{port}", "--drain", "{drain}", "--loops", "2", *arguments)


QUIET = ("--set", "log_level=warning")
UVICORN = ("uvicorn", "--port", "{port}", "--log-level", "error")
SERVERS = {
    "serve, threads": Server(("uvicorn",), _serve("--threads", *QUIET)),
    "serve, processes": Server(("uvicorn",), _serve("--processes", *QUIET)),
    "serve, polite app": Server(("uvicorn",), _serve("--processes", *QUIET, app="polite")),
    "serve on hypercorn": Server(
        ("hypercorn",), _serve("--server", "hypercorn", "--set", "accesslog=None", "--set", "loglevel=warning")
    ),
    "gunicorn, LoopcoreWorker": Server(
        ("gunicorn", "uvicorn_worker"),
        (
            *("gunicorn", "-k", "loopcore.gunicorn.LoopcoreWorker", "-w", "2", "-b", "127.0.0.1:{port}"),
            *("--graceful-timeout", "{drain}", "--log-level", "critical", "apps:deaf"),
        ),
    ),
    "gunicorn, two threads": Server(
        ("gunicorn", "uvicorn_worker"),
        (
            *("gunicorn", "-k", "loopcore.gunicorn.LoopcoreWorker", "--threads", "2", "-b", "127.0.0.1:{port}"),
            *("--graceful-timeout", "{drain}", "--log-level", "critical", "apps:deaf"),
        ),
    ),
    "gunicorn, UvicornWorker": Server(
        ("gunicorn", "uvicorn_worker"),
        (
            *("gunicorn", "-k", "uvicorn_worker.UvicornWorker", "-w", "2", "-b", "127.0.0.1:{port}"),
            *("--graceful-timeout", "{drain}", "--log-level", "critical", "apps:deaf"),
        ),
    ),
    "uvicorn": Server(("uvicorn",), (*UVICORN, "--workers", "2", "apps:deaf")),
    "uvicorn, timeout": Server(
        ("uvicorn",), (*UVICORN, "--workers", "2", "--timeout-graceful-shutdown", "{drain}", "apps:deaf")
    ),
    "hypercorn, timeout": Server(
        ("hypercorn",),
        (
            *("hypercorn", "--bind", "127.0.0.1:{port}", "--workers", "2", "--graceful-timeout", "{drain}"),
            *("--log-level", "CRITICAL", "apps:deaf"),
        ),
    ),
}


class Seen(NamedTuple):
    """What a shutdown looked like."""

    seconds: float
    exit_code: str
    streams: Counter[str]
    websockets: Counter[str]


async def read_stream(port: int, opened: "asyncio.Queue[None]") -> str:
    """Open an event stream, and return how it ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"data: tick\n\n\r\n")
        opened.put_nowait(None)
        end = b""
        while piece := await reader.read(65536):
            end = (end + piece)[-200:]
    except OSError as error:
        return type(error).__name__
    finally:
        writer.close()
    if not end.endswith(LAST_CHUNK):
        return "broken"
    return "goodbye, complete" if b"goodbye" in end else "complete"


async def read_websocket(port: int, opened: "asyncio.Queue[None]") -> str:
    """Open a WebSocket, and return the code that it was closed with."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed

    last: object = None
    connection = await connect(f"ws://127.0.0.1:{port}/", ping_interval=None, open_timeout=60)
    await connection.send("hello")
    await connection.recv()
    opened.put_nowait(None)
    try:
        while True:
            last = await connection.recv()
    except ConnectionClosed as closed:
        code = "no close frame" if closed.rcvd is None else str(int(closed.rcvd.code))
        return f"goodbye, {code}" if last == "goodbye" else code


async def shut_down(server: Server, streams: int, websockets: int, drain: int, patience: float) -> Seen:
    """Start a server, open connections, send SIGTERM, and report."""
    port = free_port()
    arguments = [each.format(port=port, drain=drain) for each in server.arguments]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *arguments),
        cwd=HERE,
        env={**os.environ, "PYTHONPATH": python_path()},
        start_new_session=True,
    )
    await until_open(port, process)
    opened: asyncio.Queue[None] = asyncio.Queue()
    readers = [asyncio.ensure_future(read_stream(port, opened)) for _ in range(streams)]
    listeners = [asyncio.ensure_future(read_websocket(port, opened)) for _ in range(websockets)]
    for _ in range(streams + websockets):
        await asyncio.wait_for(opened.get(), 60)
    began = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    try:
        code = str(await asyncio.wait_for(process.wait(), patience))
    except TimeoutError:
        process.kill()
        await process.wait()
        code = "killed"
    seconds = time.perf_counter() - began
    try:
        return Seen(seconds, code, await count(readers), await count(listeners))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # workers that have outlived it


async def count(tasks: Sequence["asyncio.Future[str]"]) -> Counter[str]:
    """Return how often each end occurred; a worker that outlives its parent leaves connections open."""
    done, left = await asyncio.wait(tasks, timeout=2) if tasks else (set(), set())
    for each in left:
        each.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return Counter([*(each.result() for each in done), *("still open" for _ in left)])


def python_path() -> str:
    """Return PYTHONPATH for the server: this folder, then that of this process."""
    return os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def until_open(port: int, process: asyncio.subprocess.Process) -> None:
    """Wait until the server accepts. Raises RuntimeError if it ends instead."""
    while process.returncode is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise RuntimeError(f"the server ended with {process.returncode} before it accepted")


def installed(server: Server) -> bool:
    """Return whether the server's packages are here."""
    return all(importlib.util.find_spec(each) for each in server.packages)


def show(counts: Counter[str]) -> str:
    """Return counts as text."""
    return ", ".join(f"{number} {what}" for what, number in counts.most_common()) or "none"


def main() -> None:
    """Shut down every server, and print a table."""
    parser = argparse.ArgumentParser(description="Shut servers down while connections are open.")
    parser.add_argument("servers", nargs="*", metavar="SERVER", help=f"of {', '.join(SERVERS)}")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--websockets", type=int, default=200)
    parser.add_argument("--drain", type=int, default=2, help="seconds until the deadline")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds until a server is killed")
    given = parser.parse_args()
    unknown = set(given.servers) - SERVERS.keys()
    if unknown:
        parser.error(f"there is no server {', '.join(sorted(unknown))}; choose of {', '.join(SERVERS)}")
    print(f"{'server':26}{'seconds':>8}  {'exit':>6}  {'event streams':32}WebSockets")
    for name in given.servers or SERVERS:
        if not installed(SERVERS[name]):
            print(f"{name:26}not installed: {', '.join(SERVERS[name].packages)}")
            continue
        seen = asyncio.run(shut_down(SERVERS[name], given.streams, given.websockets, given.drain, given.patience))
        print(
            f"{name:26}{seen.seconds:8.2f}  {seen.exit_code:>6}  {show(seen.streams):32}{show(seen.websockets)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
