"""The outbox: what a connection has been told but not yet sent, in order and of bounded size.

Two ways in, because there are two answers to a client that reads too slowly:

* a *reply* answers the client's own request and is never dropped. Instead the server waits for `room` before it
  serves the next request: who does not read is not read from.
* an *offer* is what others do in a group. Nobody may wait for the slowest member, so an offer to a full outbox is
  dropped and counted. The count is an entry of the queue, a gap: it stands where the dropped messages would have
  stood, counts on while it is the last entry, and becomes {"type":"missed"} when its turn to be sent comes.

So at most `limit` replies, `limit` offers, and a gap between any two of them, are waiting.
All methods are for the loop's own thread; only `get` and `room` wait.
"""

import asyncio
from collections import deque
from typing import NamedTuple

from messages import Missed, encode


class _Line(NamedTuple):
    line: bytes
    is_reply: bool


_Gap = dict[str, int]  # group -> messages dropped here


class Outbox:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: deque[_Line | _Gap] = deque()
        self._replies = 0
        self._offers = 0
        self._closed = False
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def reply(self, line: bytes) -> None:
        """Queue a line for good."""
        if self._closed:
            return
        self._entries.append(_Line(line, is_reply=True))
        self._replies += 1
        if self._replies >= self._limit:
            self._room.clear()
        self._filled.set()

    def offer(self, group: str, line: bytes) -> None:
        """Queue a line of `group`, or count it as missed."""
        if self._closed:
            return
        if self._offers < self._limit:
            self._entries.append(_Line(line, is_reply=False))
            self._offers += 1
            self._filled.set()
        else:
            # A full outbox is not empty, so there is a last entry: a gap to widen, or a line to put one behind.
            last = self._entries[-1]
            if isinstance(last, _Line):
                last = {}
                self._entries.append(last)
            last[group] = last.get(group, 0) + 1

    async def get(self) -> bytes | None:
        """The next line to send, once there is one; None when the outbox is closed and empty."""
        while not self._entries:
            if self._closed:
                return None
            self._filled.clear()
            await self._filled.wait()
        entry = self._entries[0]
        if isinstance(entry, dict):
            group, count = entry.popitem()
            if not entry:
                self._entries.popleft()
            return encode(Missed(group, count))
        self._entries.popleft()
        if entry.is_reply:
            self._replies -= 1
            self._room.set()
        else:
            self._offers -= 1
        return entry.line

    async def room(self) -> None:
        """Wait until fewer than `limit` replies are waiting, or the outbox is closed."""
        await self._room.wait()

    def close(self) -> None:
        """Take nothing more; `get` still hands out what is there."""
        self._closed = True
        self._filled.set()
        self._room.set()
