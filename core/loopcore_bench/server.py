"""The server process: one application on one loop, and a control pipe.

On stdout it prints `{"port": N}` once it listens. Each line on stdin is answered with its CPU time; end of file ends
the process at once. A thread that sleeps in read(2) serves the pipe, so the loop under test has no descriptor it would
not have otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import threading
from collections.abc import Awaitable, Callable

from loopcore_bench.child import NOT_INSTALLED
from loopcore_bench.loops import loop_factory, missing_reason
from loopcore_bench.meter import cpu_ns, settle_gc, warm_allocator

BACKLOG = 4096
kept: list[object] = []
"""Servers and tasks of this process, kept alive only by this list."""


class Echo(asyncio.Protocol):
    """Writes back the bytes it receives."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def serve_protocol(listener: socket.socket, size: int) -> None:
    """`create_server` with Echo."""
    kept.append(await asyncio.get_running_loop().create_server(Echo, sock=listener, backlog=BACKLOG))


async def serve_streams(listener: socket.socket, size: int) -> None:
    """`asyncio.start_server`: read exactly one message, write it, drain."""
    kept.append(await asyncio.start_server(talker(size), sock=listener, backlog=BACKLOG, limit=max(1 << 16, 2 * size)))


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def talker(size: int) -> Talk:
    """A client's callback that echoes messages of `size` bytes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(await reader.readexactly(size))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    return talk


APPLICATIONS = {"protocol": serve_protocol, "streams": serve_streams}


def tcp_listener() -> socket.socket:
    """A socket bound to a free port of the loopback interface, not yet listening."""
    # The protocol must be named, or asyncio does not see that it is TCP and leaves Nagle's algorithm on.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    return listener


def say(message: dict[str, object]) -> None:
    """Write one line to the parent."""
    os.write(1, json.dumps(message).encode() + b"\n")


def _control() -> None:
    """Serve the control pipe until its end, then exit without clean-up: the measurement is over."""
    while os.read(0, 64):
        say({"cpu_ns": cpu_ns()})
    os._exit(0)


async def _serve(kind: str, listener: socket.socket, size: int) -> None:
    port = listener.getsockname()[1]  # read first: rloop detaches the socket
    await APPLICATIONS[kind](listener, size)
    settle_gc("on")
    say({"port": port})
    await asyncio.get_running_loop().create_future()


def main(argv: list[str] | None = None) -> int:
    """Entry of the server process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", required=True)
    parser.add_argument("--backend")
    parser.add_argument("--kind", required=True, choices=sorted(APPLICATIONS))
    parser.add_argument("--size", type=int, required=True)
    options = parser.parse_args(argv)
    try:
        factory = loop_factory(options.loop, options.backend)
        warm_allocator()
        threading.Thread(target=_control, daemon=True).start()
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_serve(options.kind, tcp_listener(), options.size))
    except (ModuleNotFoundError, NotImplementedError) as error:
        say({"reason": missing_reason(error)})
        return NOT_INSTALLED
    return 1


if __name__ == "__main__":
    sys.exit(main())
