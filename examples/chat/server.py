"""The chat server: a connection is one task that reads and one that writes.

Only the writing task of a connection writes to its socket, a whole line at a time, so messages never interleave; all
others put lines into its outbox. Reading a request and handing it to `Groups` has no `await` in between, so a request
is atomic without a lock.

    python examples/chat/server.py --port 7000              on asyncio's own loop
    python -m loopcore run examples/chat/server.py --port 7000

SIGINT (Ctrl-C) and SIGTERM shut down: no new connections, every client gets a last message, all tasks end. Exit code
0 after that, 1 if the address cannot be listened on, 2 for wrong arguments.
"""

import argparse
import asyncio
import signal
import socket
import sys
from contextlib import suppress

from groups import Groups
from messages import MAX_LINE, REQUESTS, Bye, Error, Join, Leave, List, Post, WireError, decode, encode
from outbox import Outbox

GRACE = 2.0
"""Seconds that a closing connection has to take what is in its outbox; then it is cut."""

KERNEL_BUFFER_BYTES = 64 * 1024
"""What the kernel may hold for a slow member: left to itself it is megabytes, all of it stale chat."""


class ChatServer:
    """Listens, and owns the groups and the connections."""

    def __init__(self, outbox_limit: int = 100) -> None:
        self._outbox_limit = outbox_limit
        self._groups = Groups()
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._server: asyncio.Server | None = None
        self._last_words: Bye | None = None  # set once the server stops

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address, with the real port if `port` is 0. Raises OSError if that fails."""
        # A StreamReader's limit does not count the newline, ours does.
        self._server = await asyncio.start_server(self._accept, host, port, limit=MAX_LINE - 1)
        for listener in self._server.sockets:  # accepted sockets inherit it
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BUFFER_BYTES)
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self._groups, Outbox(self._outbox_limit))
        task = asyncio.create_task(connection.run())
        self._connections[task] = connection
        task.add_done_callback(self._connections.pop)
        if self._last_words is not None:  # it was in the backlog while the server stopped
            connection.close(self._last_words)

    async def stop(self, reason: str) -> None:
        """Take no new connections, tell the clients why, and return when the last task has ended."""
        assert self._server is not None, "stop() before start()"
        self._last_words = Bye(reason)
        self._server.close()
        for connection in self._connections.values():
            connection.close(self._last_words)
        while self._connections:
            await asyncio.wait(self._connections)
        await self._server.wait_closed()


class Connection:
    """One client. It lives on whatever the client says, and ends when the client or the server closes."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, groups: Groups, outbox: Outbox
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._groups = groups
        self._outbox = outbox
        self._cut: asyncio.TimerHandle | None = None

    def close(self, last_words: Bye | None = None) -> None:
        """Send what is in the outbox and end; a client that does not read is cut after GRACE."""
        if last_words is not None:
            self._outbox.reply(encode(last_words))
        self._outbox.close()
        if self._cut is None:
            self._cut = asyncio.get_running_loop().call_later(GRACE, self._writer.transport.abort)

    async def run(self) -> None:
        """Serve the client until the connection ends, for whatever reason."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._write())
                await self._read()
                self._groups.leave_all(self._outbox)
                self.close()
        except* OSError:
            pass  # the network failed, or the client is gone: nobody is left to be told
        finally:
            self._groups.leave_all(self._outbox)
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()
            if self._cut is not None:
                self._cut.cancel()

    async def _read(self) -> None:
        """Serve requests until the client has closed its side."""
        while True:
            try:
                line = await read_line(self._reader)
                if line is None:
                    return
                await self._outbox.room()
                self._serve(decode(line, REQUESTS))
            except WireError as exc:
                self._outbox.reply(encode(Error(exc.code, exc.reason)))
            # Lines that came in one packet are read without waiting. Without this, a client that sends a
            # thousand at once would fill all outboxes before a single writing task has run.
            await asyncio.sleep(0)

    def _serve(self, request: Join | Leave | Post | List) -> None:
        match request:
            case Join(group, name):
                self._groups.join(self._outbox, group, name)
            case Leave(group):
                self._groups.leave(self._outbox, group)
            case Post(group, text):
                self._groups.post(self._outbox, group, text)
            case List(group):
                self._groups.list(self._outbox, group)

    async def _write(self) -> None:
        """Send the outbox, then close: that ends `_read` too."""
        while (line := await self._outbox.get()) is not None:
            self._writer.write(line)
            await self._writer.drain()
        self._writer.close()


async def read_line(reader: asyncio.StreamReader) -> bytes | None:
    """The next line; None at the end of the stream, where a line without its newline is dropped.

    Raises WireError for a line of more than MAX_LINE bytes, after reading past its end: the next call finds the
    next line. Memory is bounded by the limit, however long the line is.
    """
    skipped = 0
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as exc:
            await reader.readexactly(exc.consumed)
            skipped += exc.consumed
        except asyncio.IncompleteReadError:
            return None
        else:
            if skipped:
                raise WireError("too-long", f"the line has {skipped + len(line)} bytes, the limit is {MAX_LINE}")
            return line


def loop_name() -> str:
    """Which event loop runs this, and on what backend if it is one of loopcore's."""
    loop = asyncio.get_running_loop()
    backend = getattr(getattr(loop, "backend", None), "name", None)
    name = f"{type(loop).__module__}.{type(loop).__qualname__}"
    return f"{name} ({backend})" if backend else name


async def serve(host: str, port: int, outbox_limit: int) -> int:
    """Run a server until SIGINT or SIGTERM; returns the exit code."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    server = ChatServer(outbox_limit)
    try:
        address = await server.start(host, port)
    except OSError as exc:
        print(f"cannot listen on {host}:{port}: {exc}", file=sys.stderr)
        return 1
    print(f"chat server on {address[0]}:{address[1]}, loop {loop_name()}", flush=True)
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
    parser = argparse.ArgumentParser(description="A chat server: newline-delimited JSON over TCP.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=7000, help="0 means any free one (default: %(default)s)")
    parser.add_argument("--outbox", type=positive, default=100, help="messages kept for a slow member (%(default)s)")
    options = parser.parse_args()
    return asyncio.run(serve(options.host, options.port, options.outbox))


if __name__ == "__main__":
    sys.exit(main())
