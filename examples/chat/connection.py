"""One client of the server: a task that reads requests, and one for each group that passes on what others say.

A line is written by one call, and a request is served without an `await`, so messages never interleave and a request
is atomic without a lock.

A client that does not read fills its transport's buffer. Its groups' tasks then wait, and the lines that they do not
take from the channels are overwritten and counted there; other clients do not wait. The server does not read requests
of such a client either.
"""

import asyncio
import socket
from contextlib import suppress

from groups import Groups, Member, Memberships
from messages import MAX_LINE, REQUESTS, Bye, Error, Join, Leave, List, Post, Quit, WireError, decode, encode

from loopcore.sync import Closed, select, watch

GRACE = 2.0
"""Seconds that a closing connection has to send its buffer; then it is aborted."""

BUFFER_BYTES = 16 * 1024
"""The high-water mark of the transport, and the size of the kernel's send buffer, whose default is megabytes: all of
it would be stale chat."""


class Connection:
    """One client. It lives on whatever the client says, and ends when the client or the server closes."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        groups: Groups,
        stopping: watch.Receiver[Bye | None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._memberships = Memberships(groups)
        self._stopping = stopping
        self._tasks = asyncio.TaskGroup()
        self._cut: asyncio.TimerHandle | None = None
        writer.transport.set_write_buffer_limits(BUFFER_BYTES)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)

    async def run(self) -> None:
        """Serve the client until the connection ends, for whatever reason."""
        try:
            async with self._tasks:
                selected = await select(self._read(), self._stopping.wait_for(bool))
                await self._finish(selected.value)
        except* OSError:
            pass  # the network failed, or the client is gone
        finally:
            for group in self._memberships.names():
                self._memberships.drop(group)
            self._stopping.close()
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()
            if self._cut is not None:
                self._cut.cancel()

    async def _finish(self, last_words: Bye | None) -> None:
        """Write all that was said to the client, and `last_words`. A client that does not read is cut."""
        self._cut = asyncio.get_running_loop().call_later(GRACE, self._writer.transport.abort)
        for group in self._memberships.names():
            self._writer.write(self._memberships.drop(group, quietly=last_words is not None))
            await self._writer.drain()
        if last_words is not None:
            self._writer.write(encode(last_words))
        self._writer.close()  # which ends `_forward`, when all is written

    async def _read(self) -> None:
        """Serve requests until the client has closed its side, or says that it will send no more."""
        while True:
            try:
                line = await read_line(self._reader)
                if line is None:
                    return
                await self._writer.drain()
                request = decode(line, REQUESTS)
                if isinstance(request, Quit):
                    return
                self._serve(request)
            except WireError as exc:
                self._writer.write(encode(Error(exc.code, exc.reason)))
            # Lines that came in one packet are read without waiting. Without this, a client that sends a
            # thousand at once would have overrun all other members before one of their tasks has run.
            await asyncio.sleep(0)

    def _serve(self, request: Join | Leave | Post | List) -> None:
        match request:
            case Join(group, name):
                member = self._memberships.join(group, name)
                self._writer.write(member.unseen())
                self._tasks.create_task(self._forward(member))
            case Leave(group):
                self._writer.write(self._memberships.leave(group))
            case Post(group, text):
                self._writer.write(self._memberships.post(group, text))
            case List(group):
                self._writer.write(self._memberships.members(group))

    async def _forward(self, member: Member) -> None:
        """Pass on what others say in the group, until it is left."""
        with suppress(Closed):
            while True:
                self._writer.write(await member.next())
                await self._writer.drain()


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
