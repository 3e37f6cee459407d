"""The client's side of the wire: requests in, events out. For the terminal, the demo, and programs of one's own."""

import asyncio
from contextlib import suppress

from addresses import Address, connect
from messages import EVENTS, Event, Quit, Request, decode, encode


class ChatConnection:
    """A connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: Address, receive_buffer_bytes: int | None = None) -> "ChatConnection":
        """Connect; raises OSError."""
        return cls(*await connect(address, receive_buffer_bytes))

    async def send(self, request: Request) -> None:
        await self.send_bytes(encode(request))

    async def send_bytes(self, line: bytes) -> None:
        """Send a line unchanged, valid or not."""
        self._writer.write(line)
        await self._writer.drain()

    async def receive(self) -> Event | None:
        """The next event; None when the server has closed. Raises OSError, and WireError for nonsense."""
        line = await self._reader.readline()
        return decode(line, EVENTS) if line.endswith(b"\n") else None

    async def finish(self) -> None:
        """Say that no more requests will come. The server answers those it has, then closes."""
        await self.send(Quit())

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
