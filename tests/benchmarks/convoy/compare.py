"""What a thread that computes does to a server in the same process, for each event loop, with and without `convoy`.

    python tests/benchmarks/convoy/compare.py [PYTHON ...] [--seconds 3] [--rounds 3] [--threads 1]
        [--servers echo,uvicorn] [--loops asyncio,uvloop,rloop,loopcore,loopcore+convoy] [--intervals]

A server with one connection runs in a separate process, next to threads that compute in Python. A client in another
process sends 1 KiB to an echo protocol, or a GET to a uvicorn application (httptools), in two ways: `steady` pauses for
2 ms after each answer, so that the loop has gone to sleep; `closed` sends the next request at once.

Printed for each, as the median of the rounds: requests/s, the median and the 99th percentile of the answer's time in
ms, and how much the threads computed, in percent of their work next to an idle loop. The loops take turns.
`--intervals` compares switch intervals instead, set by hand, on loopcore.

It measures the machine. Other programs that use its processors add their time slices (3 to 5 ms) to the percentiles,
most of all when they keep the thread that has the GIL from running. As root on Linux, `chrt -r 5 python ...` gives
server and client real-time priority; on two processors nothing else gets much of one meanwhile.
"""

import argparse
import asyncio
import importlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOOPS = ["asyncio", "uvloop", "rloop", "loopcore", "loopcore+convoy"]
WAYS = {"steady": 0.002, "closed": 0.0}
INTERVALS_MS = [5.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02]
WARM_UP = 0.3
"""Seconds for which the client sends before it measures."""

CLIENT = """
import json, socket, sys, time
port, seconds, pause, is_echo = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "echo"
request = b"x" * 1024 if is_echo else b"GET / HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"
sock = socket.create_connection(("127.0.0.1", port))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

def ask():
    began = time.perf_counter()
    sock.sendall(request)
    answer = b""
    while len(answer) < 1024 if is_echo else not answer.endswith(b"hello"):
        answer += sock.recv(65536)
    return time.perf_counter() - began

def run(seconds):
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        times.append(ask())
        if pause:
            time.sleep(pause)
    return times

run(%s)
times = sorted(run(seconds))
print(json.dumps([len(times) / seconds, times[len(times) // 2] * 1e3, times[len(times) * 99 // 100] * 1e3]))
""" % (WARM_UP,)  # noqa: UP031 - the braces of an f-string would have to be doubled


# The server, in a separate process


class Echo(asyncio.Protocol):
    """Sends back what it receives."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def application(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[dict[str, Any]], Any]) -> None:
    """Answer each request with a line."""
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def listen(kind: str) -> int:
    """Start the server; return its port."""
    if kind == "echo":
        server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])
    import uvicorn

    config = uvicorn.Config(
        application, port=0, log_level="critical", loop="none", http="httptools", lifespan="off", access_log=False
    )
    uvicorn_server = uvicorn.Server(config)
    asyncio.get_running_loop().serving = asyncio.create_task(uvicorn_server.serve())  # type: ignore[attr-defined]
    while not uvicorn_server.started:
        await asyncio.sleep(0.01)
    return int(uvicorn_server.servers[0].sockets[0].getsockname()[1])


class Computing:
    """Threads that compute until the process ends, and a count of their work."""

    def __init__(self, threads: int) -> None:
        self.done = [0] * threads
        for each in range(threads):
            threading.Thread(target=self._compute, args=(each,), daemon=True).start()

    def _compute(self, each: int) -> None:
        while True:
            number = 0
            for step in range(1000):
                number = number * 3 + step & 0xFFFF
            self.done[each] += 1

    def per_second(self, since: tuple[float, int]) -> float:
        """Return the rounds per second since a `mark`."""
        return (sum(self.done) - since[1]) / (time.perf_counter() - since[0])

    def mark(self) -> tuple[float, int]:
        return time.perf_counter(), sum(self.done)


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Serve a client in each way; return its figures, and those of the threads, by way."""
    port = await listen(options.server)
    computing = Computing(options.threads)
    if options.interval_ms:
        sys.setswitchinterval(options.interval_ms / 1e3)
    begun = computing.mark()
    await asyncio.sleep(1.0)
    alone = computing.per_second(begun)
    figures = {}
    for way, pause in WAYS.items():
        command = [sys.executable, "-c", CLIENT, str(port), str(options.seconds), str(pause), options.server]
        client = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        await asyncio.sleep(WARM_UP + 0.1)
        begun = computing.mark()
        await asyncio.sleep(options.seconds - 0.2)
        computed = computing.per_second(begun)
        output, _ = await client.communicate()
        figures[way] = [*json.loads(output), 100 * computed / alone if alone else 0.0]
    return figures


def serve(options: argparse.Namespace) -> None:
    """Be the server, print the figures, and end with all threads."""
    name, _, plugin = options.serve.partition("+")
    if name == "loopcore":
        import loopcore

        loop = loopcore.new_event_loop(plugins=plugin)
    else:
        loop = importlib.import_module(name).new_event_loop()
    print(json.dumps(loop.run_until_complete(measure(options))), flush=True)
    os._exit(0)


# The comparison


def run_server(python: str, loop: str, server: str, options: argparse.Namespace, interval_ms: float) -> dict[str, Any]:
    """Return the figures of one round."""
    settings = {"server": server, "seconds": options.seconds, "threads": options.threads, "interval-ms": interval_ms}
    arguments = [f"--{name}={value}" for name, value in settings.items()]
    command = [python, __file__, f"--serve={loop}", *arguments]
    figures: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return figures


def version_of(python: str) -> str:
    """Return the interpreter's version, with the build of loopcore."""
    code = (
        "import platform; from loopcore.build_info import describe_build as build; "
        "print(platform.python_version(), 'compiled' if build().compiled else 'pure', sep=', ')"
    )
    return subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def compare(python: str, options: argparse.Namespace) -> None:
    """Print the tables of one interpreter."""
    subjects = [(loop, 0.0) for loop in options.loops.split(",")]
    if options.intervals:
        subjects = [("loopcore", interval) for interval in INTERVALS_MS]
    for server in options.servers.split(","):
        rounds: dict[tuple[str, float], list[dict[str, Any]]] = {subject: [] for subject in subjects}
        for _ in range(options.rounds):
            for subject in subjects:
                rounds[subject].append(run_server(python, subject[0], server, options, subject[1]))
        print(f"\n{server}, {options.threads} threads that compute (Python {version_of(python)}):\n")
        print("| loop | way | requests/s | median (ms) | p99 (ms) | threads (%) |")
        print("|---|---|---|---|---|---|")
        for way in WAYS:
            for (loop, interval), each in rounds.items():
                rate, median, p99, computed = (
                    statistics.median(column) for column in zip(*(figures[way] for figures in each), strict=True)
                )
                name = f"interval {interval:g} ms" if interval else loop
                print(f"| {name} | {way} | {rate:,.0f} | {median:.2f} | {p99:.2f} | {computed:.0f} |", flush=True)


def main() -> None:
    """Compare, or be a server of the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="*", default=[sys.executable], metavar="PYTHON")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--servers", default="echo,uvicorn")
    parser.add_argument("--loops", default=",".join(LOOPS))
    parser.add_argument("--intervals", action="store_true", help="compare switch intervals")
    for hidden in ("--serve", "--server"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--interval-ms", type=float, default=0.0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options)
    for python in options.pythons:
        compare(str(Path(python).absolute()), options)


if __name__ == "__main__":
    main()
