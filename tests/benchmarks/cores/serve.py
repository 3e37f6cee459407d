"""One process of a server on several loops, each with its own thread and port.

Started by run.py. It prints the ports and whether the GIL is on, then answers each line on stdin with its CPU time and
memory, and ends with stdin.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import queue
import socket
import sys
import threading
import traceback
from pathlib import Path

if __name__ == "__main__":  # an installed loopcore comes first: it is the compiled one
    sys.path += [str(Path(__file__).resolve().parents[3]), str(Path(__file__).resolve().parents[3] / "core")]

from loopcore_bench.loops import describe_loop, loop_factory
from loopcore_bench.meter import cpu_ns, settle_gc, warm_allocator
from loopcore_bench.server import Echo, say, tcp_listener
from tests.benchmarks.harness.servers import SERVERS, Endpoint

STEPS = 4_000
"""Steps of Python for each request of `compute`."""

KINDS = {"echo": "protocol", "http": "uvicorn"}
"""What the harness calls them."""

kept: list[asyncio.Server] = []


class Compute(Echo):
    """Computes for each message, and repeats it."""

    def data_received(self, data: bytes) -> None:
        state = len(data)
        for _ in range(STEPS):
            state = (state * 31 + 7) & 0xFFFF
        self.transport.write(data)


async def serve(work: str, listener: socket.socket, size: int) -> None:
    """Start to serve `work` on the running loop."""
    if work == "compute":
        kept.append(await asyncio.get_running_loop().create_server(Compute, sock=listener))
    else:
        await SERVERS[KINDS[work]](Endpoint(listener, size))


def memory_kib() -> dict[str, int]:
    """Proportional and resident set of this process (proc(5), /proc/pid/smaps_rollup)."""
    found = {}
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in ("Pss", "Rss"):
            found[name.lower()] = int(rest.split()[0])
    return found


def run_loop(
    make: str, backend: str | None, work: str, listener: socket.socket, size: int, ready: "queue.SimpleQueue[None]"
) -> None:
    """Run one loop in this thread. An error, of the loop or of the work, ends the process."""
    try:
        loop = loop_factory(make, backend)()
        loop.run_until_complete(serve(work, listener, size))
        ready.put(None)
        loop.run_forever()
    finally:
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", required=True)
    parser.add_argument("--backend")
    parser.add_argument("--loops", type=int, required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--size", type=int, required=True)
    options = parser.parse_args()
    facts = describe_loop(options.loop, options.backend)
    warm_allocator()
    listeners = [tcp_listener() for _ in range(options.loops)]
    ready: queue.SimpleQueue[None] = queue.SimpleQueue()
    for listener in listeners:
        arguments = (options.loop, options.backend, options.work, listener, options.size, ready)
        threading.Thread(target=run_loop, args=arguments, daemon=True).start()
    ports = [listener.getsockname()[1] for listener in listeners]
    for _ in listeners:
        ready.get()
    settle_gc("on")
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    say({"ports": ports, "gil": gil, "facts": facts})
    while os.read(0, 64):
        say({"cpu_ns": cpu_ns(), "memory_kib": memory_kib()})
    os._exit(0)


if __name__ == "__main__":
    main()
