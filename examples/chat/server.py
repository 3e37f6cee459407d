"""The chat server: it listens, owns the groups, and shuts down by signal. A client is a Connection (connection.py).

    python examples/chat/server.py --port 7000              on asyncio's own loop
    python -m loopcore run examples/chat/server.py --port 7000
    ... server.py --cert chat.pem                           over TLS
    ... server.py --unix /tmp/chat                          over a Unix socket

SIGINT (Ctrl-C) and SIGTERM shut down: no new connections, every client gets a last message, all tasks end. Exit code
0 after that, 1 if the address cannot be listened on, 2 for wrong arguments.
"""

import argparse
import asyncio
import signal
import sys

from addresses import Address, add_server_options, bound, listen, server_address
from connection import Connection
from groups import Groups
from messages import Bye

from loopcore.sync import watch


class ChatServer:
    """Listens, and owns the groups and the connections."""

    def __init__(self, kept: int = 100) -> None:
        self._groups = Groups(kept)
        self._stop, self._stopping = watch.Channel[Bye | None](None)
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, address: Address) -> Address:
        """Listen; returns the address, with the real port if it was 0. Raises OSError if that fails."""
        self._server = await listen(address, self._accept)
        return bound(address, self._server)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A separate receiver for each. A connection accepted from the backlog after `stop` learns of it at once.
        connection = Connection(reader, writer, self._groups, self._stopping.clone())
        task = asyncio.create_task(connection.run())
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def stop(self, reason: str) -> None:
        """Take no new connections, tell the clients why, and return when the last task has ended."""
        assert self._server is not None, "stop() before start()"
        self._server.close()
        self._stop.send(Bye(reason))
        while self._connections:
            await asyncio.wait(self._connections)
        await self._server.wait_closed()


def loop_name() -> str:
    """Which event loop runs this, and on what backend if it is one of loopcore's."""
    loop = asyncio.get_running_loop()
    backend = getattr(getattr(loop, "backend", None), "name", None)
    name = f"{type(loop).__module__}.{type(loop).__qualname__}"
    return f"{name} ({backend})" if backend else name


async def serve(address: Address, kept: int) -> int:
    """Run a server until SIGINT or SIGTERM; returns the exit code."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    server = ChatServer(kept)
    try:
        address = await server.start(address)
    except OSError as exc:
        print(f"cannot listen on {address}: {exc}", file=sys.stderr)
        return 1
    print(f"chat server on {address}, loop {loop_name()}", flush=True)
    await stop.wait()
    await server.stop("the server is shutting down")
    print("chat server stopped", flush=True)
    return 0


def positive(text: str) -> int:
    """An argument that is a whole number above 0."""
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="A chat server: newline-delimited JSON over TCP, TLS, Unix sockets.")
    add_server_options(parser)
    parser.add_argument("--keep", type=positive, default=100, help="messages kept for slow members (%(default)s)")
    options = parser.parse_args()
    return asyncio.run(serve(server_address(parser, options), options.keep))


if __name__ == "__main__":
    sys.exit(main())
