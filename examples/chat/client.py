"""The chat client: a terminal for people, and `ChatConnection` for programs.

    python examples/chat/client.py --port 7000 --name ann --group tea

A line that is typed is posted to the group joined last, unless it starts with a slash: COMMANDS below. Standard
input may be a pipe: `echo hello | client.py --group tea` posts, waits for the server's answer and leaves. It is read
in a thread, because not every loop can wait for it (a file, Windows).

Exit code 0 after /quit or the end of the input, 1 if there is no server or it went away, 2 for wrong arguments,
130 after Ctrl-C.
"""

import argparse
import asyncio
import getpass
import io
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

from messages import (
    EVENTS,
    MAX_LINE,
    Bye,
    Error,
    Event,
    Join,
    Joined,
    Leave,
    Left,
    List,
    Members,
    Missed,
    Post,
    Posted,
    Request,
    WireError,
    decode,
    encode,
)

COMMANDS = """\
  /join GROUP [NAME]   enter a group; plain text goes there from now on
  /leave [GROUP]       leave it
  /list [GROUP]        who is there
  /post GROUP TEXT     post to a group that is not the current one
  /quit                leave all groups and end
  anything else        is posted to the current group"""


class ChatConnection:
    """A connection to a server: requests in, events out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, host: str, port: int) -> "ChatConnection":
        """Connect; raises OSError."""
        return cls(*await asyncio.open_connection(host, port, limit=MAX_LINE))

    async def send(self, request: Request) -> None:
        await self.send_bytes(encode(request))

    async def send_bytes(self, line: bytes) -> None:
        """Send a line as it is, right or wrong."""
        self._writer.write(line)
        await self._writer.drain()

    async def receive(self) -> Event | None:
        """The next event; None when the server has closed. Raises OSError, and WireError for nonsense."""
        line = await self._reader.readline()
        return decode(line, EVENTS) if line.endswith(b"\n") else None

    def finish(self) -> None:
        """Say that no more requests will come. The server answers those it has, then closes."""
        self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


class Terminal:
    """Turns typed lines into requests, and knows which group plain text goes to."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._group: str | None = None

    def join(self, group: str, name: str = "") -> Join:
        self._name = name or self._name
        self._group = group
        return Join(group, self._name)

    def parse(self, line: str) -> Request | None:
        """The request that `line` asks for, None if it asks for nothing; raises ValueError with a text to show."""
        line = line.strip()
        if not line.startswith("/"):
            return Post(self._current(None), line) if line else None
        command, _, rest = line.partition(" ")
        first, _, second = rest.strip().partition(" ")
        second = second.strip()
        match command:
            case "/join" if first:
                return self.join(first, second)
            case "/leave":
                return Leave(self._current(first))
            case "/list":
                return List(self._current(first))
            case "/post" if second:
                return Post(first, second)
        raise ValueError(f"what can be typed:\n{COMMANDS}")

    def _current(self, group: str | None) -> str:
        group = group or self._group
        if group is None:
            raise ValueError("no group yet: /join GROUP first")
        return group


def render(event: Event) -> str:
    """The event as one line for people; what others wrote cannot move the cursor or colour the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in _describe(event))


def _describe(event: Event) -> str:
    match event:
        case Posted(group, name, text):
            return f"[{group}] {name}: {text}"
        case Joined(group, name):
            return f"[{group}] * {name} joined"
        case Left(group, name):
            return f"[{group}] * {name} left"
        case Members(group, names):
            return f"[{group}] * here: {', '.join(names)}"
        case Missed(group, count):
            return f"[{group}] * you missed {count} message{'s' if count > 1 else ''}"
        case Error(code, reason):
            return f"! {reason} ({code})"
        case Bye(reason):
            return f"* {reason}"


class StandardInput:
    """The lines of standard input, for `async for`, read by a thread of its own.

    The thread is a daemon, for nothing can end its read(2) when the server goes away. It reads the descriptor and
    not `sys.stdin`, whose lock the interpreter wants when it exits.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._credit = threading.Semaphore(16)  # lines read ahead: a large file must not end up in the queue
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def _read(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody wants the line any more
            with suppress(OSError):  # there is no standard input: as good as an empty one
                for line in io.FileIO(0, closefd=False):
                    self._credit.acquire()
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, line.decode(errors="replace"))
            self._loop.call_soon_threadsafe(self._lines.put_nowait, None)

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            yield line
            self._credit.release()


async def send_typed(connection: ChatConnection, terminal: Terminal) -> None:
    """Send what is typed until /quit or the end of the input."""
    async for line in StandardInput():
        if line.strip() == "/quit":
            return
        try:
            request = terminal.parse(line)
        except ValueError as exc:
            print(exc, flush=True)
        else:
            if request is not None:
                await connection.send(request)


async def show_received(connection: ChatConnection) -> None:
    """Print events until the server closes."""
    while (event := await connection.receive()) is not None:
        print(render(event), flush=True)


async def chat(host: str, port: int, name: str, group: str | None) -> int:
    """One conversation; returns the exit code."""
    try:
        connection = await ChatConnection.open(host, port)
    except OSError as exc:
        print(f"cannot connect to {host}:{port}: {exc}", file=sys.stderr)
        return 1
    terminal = Terminal(name)
    try:
        if group is not None:
            await connection.send(terminal.join(group))
        typing = asyncio.create_task(send_typed(connection, terminal))
        receiving = asyncio.create_task(show_received(connection))
        await asyncio.wait({typing, receiving}, return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            await typing
            connection.finish()  # what was sent is still answered, and shown
            await receiving
            return 0
        typing.cancel()
        await receiving
        print("the server has closed the connection", file=sys.stderr)
    except (OSError, WireError) as exc:
        print(f"connection lost: {exc}", file=sys.stderr)
    finally:
        await connection.close()
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description="A chat client.", epilog=COMMANDS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", default="127.0.0.1", help="where the server is (default: %(default)s)")
    parser.add_argument("--port", type=int, default=7000, help="default: %(default)s")
    parser.add_argument("--name", default=getpass.getuser(), help="your name in groups (default: %(default)s)")
    parser.add_argument("--group", help="join this group at once")
    options = parser.parse_args()
    try:
        return asyncio.run(chat(options.host, options.port, options.name, options.group))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
