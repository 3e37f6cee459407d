"""The load generator: echoes over TCP, as many as the server takes in so many seconds.

It says `ready` when all connections have been warmed up, and for each line that says "go" it loads the server and
prints one object. Every answer is compared with what was sent. It takes as much CPU as a server, on another processor
where there are two, so the server waits often.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import sys
import time

from loopcore_bench.meter import percentile

_CHUNK = 1 << 16


class Connection:
    """One connection of the closed loop: either a message or its answer is in flight."""

    def __init__(self, sock: socket.socket, size: int, number: int) -> None:
        self._sock = sock
        self._size = size
        self._number = number
        self._message = b""
        self._unsent = memoryview(b"")
        self._got = bytearray()
        self._began = 0.0

    def begin(self) -> None:
        """Send the next message; no two successive ones have the same bytes."""
        self._number += 1
        self._message = (self._number.to_bytes(8, "big") * (self._size // 8 + 1))[-self._size :]
        self._unsent = memoryview(self._message)
        self._got.clear()
        self._began = time.perf_counter()
        self.send()

    def send(self) -> None:
        """Send the rest; bytes that do not fit wait until the answer makes room."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except BlockingIOError:
            pass

    def receive(self) -> float | None:
        """Receive bytes of the answer. Returns the latency in microseconds when it is complete, None while it is not.

        Raises ConnectionError at the end of the stream and ValueError for an answer that differs from the message.
        """
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return None
        if not data:
            raise ConnectionError("the server has closed the connection")
        self._got += data
        self.send()
        if len(self._got) < self._size:
            return None
        if self._got != self._message:
            raise ValueError("the answer is not what was sent")
        return (time.perf_counter() - self._began) * 1e6


class Load:
    """All connections and their figures."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._selector = selectors.DefaultSelector()
        self._open: list[Connection] = []
        self.errors = 0
        self.wrong = 0
        for number in range(options.conns):
            sock = connect(options)
            connection = Connection(sock, options.size, number << 32)
            self._selector.register(sock, selectors.EVENT_READ, connection)
            self._open.append(connection)

    def run(self, seconds: float) -> list[float]:
        """Load for so many seconds; returns the latencies."""
        latencies: list[float] = []
        deadline = time.perf_counter() + seconds
        busy = set(self._open)
        for connection in busy:
            connection.begin()
        while busy:
            for key, _ in self._selector.select():
                connection = key.data
                try:
                    latency = connection.receive()
                except (OSError, ValueError) as error:
                    self.errors += 1
                    self.wrong += isinstance(error, ValueError)
                    self._selector.unregister(key.fileobj)
                    self._open.remove(connection)
                    busy.discard(connection)
                    continue
                if latency is None:
                    continue
                latencies.append(latency)
                if time.perf_counter() < deadline:
                    connection.begin()
                else:
                    busy.discard(connection)
        return latencies


def connect(options: argparse.Namespace) -> socket.socket:
    """One connection to the server."""
    sock = socket.create_connection(("127.0.0.1", options.port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock


def main(argv: list[str] | None = None) -> int:
    """Entry of the load generator."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--port", "--conns", "--size"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--seconds", "--warmup"):
        parser.add_argument(name, type=float, required=True)
    options = parser.parse_args(argv)
    load = Load(options)
    load.run(options.warmup)
    print("ready", flush=True)
    while sys.stdin.readline() == "go\n":  # the connections stay open until the server's time has been read
        began = time.perf_counter()
        latencies = load.run(options.seconds)
        result = {
            "requests": len(latencies),
            "errors": load.errors,
            "wrong": load.wrong,
            "seconds": time.perf_counter() - began,
            "p50_us": percentile(latencies, 0.5) if latencies else 0.0,
            "p99_us": percentile(latencies, 0.99) if latencies else 0.0,
        }
        print(json.dumps(result), flush=True)
    return 0
