"""The server process: one application on one loop, and a control pipe.

On stdout it prints `{"port": N}` once it listens. On stdin it takes lines: `usage` is answered with its CPU
time and its peak memory, `state` with its resident set and the number of its open files (which takes time, and is
therefore separate), end of file ends the process at once. A thread that sleeps in read(2) serves the pipe, so the
loop under test has no descriptor it would not have otherwise, and third-party servers need no change.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
import threading

from loopcore_bench.child import NOT_INSTALLED
from loopcore_bench.loops import loop_factory, missing_reason
from loopcore_bench.meter import cpu_ns, settle_gc, warm_allocator
from loopcore_bench.server import say, tcp_listener
from tests.benchmarks.harness.memory import peak_kib, resident_bytes
from tests.benchmarks.harness.servers import SERVERS, Endpoint

if sys.platform != "win32":
    import resource


def raise_file_limit() -> None:
    """Lift the soft limit of open files to the hard one, where there is one."""
    if sys.platform != "win32":
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _control() -> None:
    """Serve the control pipe until its end, then leave without clean-up: the measurement is over."""
    while line := os.read(0, 64):
        if line.startswith(b"state"):
            say({"rss_bytes": resident_bytes(), "files": len(os.listdir("/proc/self/fd")) - 1})  # 1: the directory
        else:
            say({"cpu_ns": cpu_ns(), "peak_kib": peak_kib()})
    os._exit(0)


def bind(path: str | None, *, udp: bool) -> socket.socket:
    """A bound socket, not yet listening: TCP or UDP on a free port of the loopback, or a Unix path."""
    if path is not None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
    elif udp:
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listener.setblocking(False)
        listener.bind(("127.0.0.1", 0))
    else:
        listener = tcp_listener()
    return listener


async def _serve(kind: str, end: Endpoint, gc_mode: str) -> None:
    port = end.listener.getsockname()[1] if end.listener.family == socket.AF_INET else 0  # rloop detaches the socket
    await SERVERS[kind](end)
    settle_gc(gc_mode)
    say({"port": port})
    await asyncio.get_running_loop().create_future()


def main(argv: list[str] | None = None) -> int:
    """Entry of the server process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", required=True)
    parser.add_argument("--backend")
    parser.add_argument("--kind", required=True, choices=sorted(SERVERS))
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--unix")
    parser.add_argument("--pipe")
    parser.add_argument("--udp", action="store_true")
    parser.add_argument("--certificate")
    parser.add_argument("--gc", choices=("on", "off"), default="on")
    options = parser.parse_args(argv)
    raise_file_limit()
    try:
        factory = loop_factory(options.loop, options.backend)
        end = Endpoint(bind(options.unix, udp=options.udp), options.size, options.certificate, options.pipe)
        warm_allocator()
        threading.Thread(target=_control, daemon=True).start()
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_serve(options.kind, end, options.gc))
    except (ModuleNotFoundError, NotImplementedError) as error:
        say({"reason": missing_reason(error)})
        return NOT_INSTALLED
    return 1


if __name__ == "__main__":
    sys.exit(main())
