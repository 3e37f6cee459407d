"""The two ends of a connection of traffic.py: what each sends and expects, and how it behaves meanwhile.

Every direction has random bytes of its own, so a byte that is lost, doubled or another connection's differs from the
one that is expected at its place. An end checks what it receives as it comes, whichever protocol it wears.
"""

import asyncio
import random
import socket
import struct
import tempfile
import weakref
from typing import Any

ALIVE: "weakref.WeakSet[End]" = weakref.WeakSet()
PIECES = (0, 1, 7, 100, 1460, 4096, 16384, 65536, 200_000)
"""Sizes of writes."""


class End:
    """One end: sends `outgoing`, and holds what comes against `expected`."""

    def __init__(self, name: str, outgoing: bytes, expected: bytes, *, keeps_open: bool = True) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.outgoing = outgoing
        self.expected = expected
        self.keeps_open = keeps_open
        """Whether it goes on sending when its peer has ended its direction; TLS has no such connections."""
        self.sends_files = True
        """Only one of two ends may: a transport that sends a file does not read, in asyncio as here, so two would wait
        for each other when both directions are full."""
        self.received = 0
        self.faults: list[str] = []
        self.transport: Any = None
        self.fixed = False
        """Whether the transport and its protocol must be left as they are, because an upgrade or a sendfile goes on."""
        self.made = loop.create_future()
        self.lost = loop.create_future()
        self.came = asyncio.Event()
        """Set when everything has been received, or nothing more will come."""
        self.writable = asyncio.Event()
        self.writable.set()
        self.has_ended = False
        self.stage = ""
        ALIVE.add(self)

    def __repr__(self) -> str:
        return (
            f"<{self.name}: {self.received} of {len(self.expected)} bytes, has_ended={self.has_ended} "
            f"lost={self.lost.done()} "
            f"writable={self.writable.is_set()} fixed={self.fixed} {self.stage} {self.transport!r}>"
        )

    def is_complete(self) -> bool:
        return self.received == len(self.expected)

    def take(self, data: bytes) -> None:
        if not data:
            self.faults.append(f"{self.name}: received nothing, as data")
        if self.has_ended:
            self.faults.append(f"{self.name}: {len(data)} bytes after the end of the stream")
        start = self.received
        self.received += len(data)
        if self.expected[start : self.received] != data:
            self.faults.append(
                f"{self.name}: wrong bytes from {start} to {self.received}: {describe(self, data, start)}"
            )
            self.transport.abort()
        if self.is_complete():
            self.came.set()

    def end(self) -> bool:
        if self.has_ended:
            self.faults.append(f"{self.name}: the end of the stream came twice")
        self.has_ended = True
        self.came.set()
        return self.keeps_open

    def lose(self, exc: BaseException | None) -> None:
        if self.lost.done():
            self.faults.append(f"{self.name}: the connection was lost twice")
        else:
            self.lost.set_result(exc)
        self.came.set()
        self.writable.set()


def describe(end: End, data: bytes, start: int) -> str:
    """Tell where wrong bytes are from, as far as that can be seen."""
    first = next(
        (at for at, byte in enumerate(data) if start + at >= len(end.expected) or byte != end.expected[start + at]), 0
    )
    sample = data[first : first + 16]
    place = end.expected.find(sample) if len(sample) == 16 else -1
    known = f"they belong at {place}" if place >= 0 else ("zeros" if not any(sample) else "foreign")
    return f"the first at {start + first} of {len(end.expected)}, {known}: {sample.hex()}"


class Wearing(asyncio.BaseProtocol):
    """What both protocols of an end have in common."""

    def __init__(self, end: End) -> None:
        self.of = end

    def connection_made(self, transport: Any) -> None:
        self.of.transport = transport
        if self.of.made.done():
            self.of.faults.append(f"{self.of.name}: the connection was made twice")
        else:
            self.of.made.set_result(None)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.of.lose(exc)

    def pause_writing(self) -> None:
        self.of.writable.clear()

    def resume_writing(self) -> None:
        self.of.writable.set()

    def eof_received(self) -> bool:
        return self.of.end()


class Plain(Wearing, asyncio.Protocol):
    """Is given bytes."""

    def data_received(self, data: bytes) -> None:
        self.of.take(data)


class Buffered(Wearing, asyncio.BufferedProtocol):
    """Is asked for a buffer."""

    def __init__(self, end: End, size: int) -> None:
        super().__init__(end)
        self.buffer = memoryview(bytearray(size))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.of.take(bytes(self.buffer[:nbytes]))


def dressed(end: End, chance: random.Random) -> Plain | Buffered:
    """Return a protocol for `end`."""
    return Plain(end) if chance.random() < 0.5 else Buffered(end, chance.choice((1000, 4096, 70_000)))


async def send_all(end: End, chance: random.Random) -> None:
    """Send what `end` has to say in random pieces; return when the transport has taken it, or has ended."""
    sent = 0
    while sent < len(end.outgoing) and not end.lost.done() and not end.transport.is_closing():
        piece = end.outgoing[sent : sent + chance.choice(PIECES)]
        sent += len(piece)
        way = chance.random()
        end.stage = f"sent {sent} of {len(end.outgoing)}"
        if way < 0.1 and end.sends_files and not end.fixed:
            await send_as_file(end, piece)
        elif way < 0.3:
            middle = chance.randint(0, len(piece))
            end.transport.writelines([piece[:middle], memoryview(piece)[middle:]])
        elif way < 0.4:
            end.transport.write(memoryview(piece))
        elif way < 0.5:
            end.transport.write(bytearray(piece))
        else:
            end.transport.write(piece)
        if chance.random() < 0.3:
            await asyncio.sleep(chance.choice((0, 0, 0.001)))
        await end.writable.wait()


async def send_as_file(end: End, piece: bytes) -> None:
    end.fixed = True
    end.transport.resume_reading()
    try:
        with tempfile.TemporaryFile() as file:
            file.write(piece)
            file.seek(0)
            await asyncio.get_running_loop().sendfile(end.transport, file)
    finally:
        end.fixed = False


async def disturb(end: End, chance: random.Random) -> None:
    """Pause and resume reading, move the water marks and switch protocols until the connection is lost."""
    while not end.lost.done():
        await asyncio.sleep(chance.choice((0, 0, 0.001, 0.003)))
        if end.fixed or end.lost.done():
            continue
        match chance.randrange(5):
            case 0 if not end.transport.is_closing():
                end.transport.pause_reading()
                await asyncio.sleep(chance.choice((0, 0.001, 0.01)))
                if not end.fixed and not end.transport.is_closing():
                    end.transport.resume_reading()
            case 1 if not end.transport.is_closing():
                end.transport.set_protocol(dressed(end, chance))
            case 2 if not end.transport.is_closing():
                end.transport.set_write_buffer_limits(high=chance.choice((0, 1, 5000, 65536, 300_000)))
            case _:
                await asyncio.wait([end.lost], timeout=chance.choice((0.001, 0.01)))


def reset(transport: Any) -> None:
    """End a connection over TCP so that its peer gets ECONNRESET; another kind just ends at once."""
    sock = transport.get_extra_info("socket")
    if not transport.is_closing() and sock.family == socket.AF_INET:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
