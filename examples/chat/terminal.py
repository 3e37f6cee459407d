"""The terminal: typed lines become requests, events become lines to show; standard input is read meanwhile."""

import io
import threading
from contextlib import suppress

from messages import Bye, Error, Event, Join, Joined, Leave, Left, List, Members, Missed, Post, Posted, Request

from loopcore.sync import Closed, block_on, mpmc

COMMANDS = """\
  /join GROUP [NAME]   enter a group; plain text goes there from now on
  /leave [GROUP]       leave it
  /list [GROUP]        who is there
  /post GROUP TEXT     post to a group that is not the current one
  /quit                leave all groups and end
  anything else        is posted to the current group"""


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
        """The request that `line` asks for, None for an empty line; raises ValueError with a text to show."""
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


def standard_input() -> mpmc.Receiver[str]:
    """Return the lines of standard input, read by a separate thread: not every loop can wait for a file.

    The thread is a daemon, because nothing can end its read(2) when the server goes away. It reads the descriptor and
    not `sys.stdin`, whose lock the interpreter takes when it exits.
    """
    sender, receiver = mpmc.Channel[str](16, threadsafe=True)  # a large file must not end up in memory

    def read() -> None:
        # Nothing else runs in this thread, so `read(2)` may block its loop.
        with suppress(OSError, Closed):  # no standard input is like an empty one; or the receiver is closed
            block_on(copy())

    async def copy() -> None:
        with sender:
            for line in io.FileIO(0, closefd=False):
                await sender.send(line.decode(errors="replace"))

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return receiver
