"""TLS echo: CPU time of the server for each message, on loopcore, uvloop and asyncio.

    python tests/benchmarks/tls_echo.py [--rounds 5] [--size 1024 102400] [--conns 10] [--loop loopcore uvloop asyncio]

Each measurement is a fresh server process with one loop; the client is this process, with blocking `ssl` sockets: it
sends a message on each connection, then reads the answers. Only the server's CPU time (user and system) counts, so
the client may be slow. The rounds are interleaved, and the table shows the least of each, in microseconds.

Not a row of `loopbench`, whose load generator is a C program without TLS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from typing import Any

import trustme
from loopbench.meter import warm_allocator

WARM_UP = 0.2
"""The part of the messages that is sent before the clock runs."""


class Echo(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def loop_factory(name: str) -> Any:
    if name == "asyncio":
        return asyncio.SelectorEventLoop
    module = __import__(name)
    return module.new_event_loop


def answer_usage() -> None:
    while os.read(0, 64):
        usage = resource.getrusage(resource.RUSAGE_SELF)
        os.write(1, json.dumps([usage.ru_utime + usage.ru_stime, usage.ru_maxrss]).encode() + b"\n")
    os._exit(0)


async def serve(certificate: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0, ssl=context)
    os.write(1, json.dumps(server.sockets[0].getsockname()[1]).encode() + b"\n")
    await asyncio.get_running_loop().create_future()


def measure(loop: str, size: int, conns: int, count: int, certificate: str, trust: str) -> tuple[float, int]:
    """Return the server's microseconds of CPU for each message, and its peak of memory in KiB."""
    command = [sys.executable, __file__, "--serve", loop, "--certificate", certificate]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def usage() -> tuple[float, int]:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(b"?\n")
            server.stdin.flush()
            seconds, peak = json.loads(server.stdout.readline())
            return seconds, peak

        port = json.loads(server.stdout.readline())
        context = ssl.create_default_context(cafile=trust)
        sockets = [connect(context, port) for _ in range(conns)]
        message = os.urandom(size)
        rounds = max(1, count // conns)
        exchange(sockets, message, max(1, int(rounds * WARM_UP)))
        before, _ = usage()
        exchange(sockets, message, rounds)
        after, peak = usage()
        for sock in sockets:
            sock.close()
        server.stdin.close()
    return (after - before) / (rounds * conns) * 1e6, peak


def connect(context: ssl.SSLContext, port: int) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname="localhost")


def exchange(sockets: list[ssl.SSLSocket], message: bytes, rounds: int) -> None:
    buffer = memoryview(bytearray(1 << 16))
    size = len(message)
    for _ in range(rounds):
        for sock in sockets:
            sock.sendall(message)
        for sock in sockets:
            left = size
            while left:
                left -= sock.recv_into(buffer[: min(left, len(buffer))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, nargs="+", default=[1024, 102400])
    parser.add_argument("--conns", type=int, default=10)
    parser.add_argument("--loop", nargs="+", default=["loopcore", "uvloop", "asyncio"])
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--certificate", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        warm_allocator()
        threading.Thread(target=answer_usage, daemon=True).start()
        with asyncio.Runner(loop_factory=loop_factory(options.serve)) as runner:
            runner.run(serve(options.certificate))
        return
    authority = trustme.CA()
    with tempfile.TemporaryDirectory() as folder:
        trust, certificate = os.path.join(folder, "trust.pem"), os.path.join(folder, "server.pem")
        authority.cert_pem.write_to_path(trust)
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(certificate)
        for size in options.size:
            count = 20_000 if size < 10_000 else 4_000
            least: dict[str, tuple[float, int]] = {}
            for _ in range(options.rounds):
                for loop in options.loop:
                    found = measure(loop, size, options.conns, count, certificate, trust)
                    least[loop] = min(found, least.get(loop, found))
            cells = [f"{name} {cpu:.1f} us ({peak} KiB)" for name, (cpu, peak) in least.items()]
            print(f"{size:>8} bytes", *cells, sep="   ")


if __name__ == "__main__":
    main()
