"""Traffic: what clients sent to a server in production, and how a simulation sends it again.

A recording has the times and sizes of each connection's data, not its contents. `play` opens the connections at
the recorded times and sends as many bytes, made by a function, as arrived at each moment. `played` makes the main
program of a simulation from traffic and a server's program, for `loopcore.sim.check` and the like.

A client that waits for an answer in production waits for it here, too: a request that came after an answer is not sent
before an answer has begun to arrive. So no run has an order of events that the network could not have caused.

Times are seconds from the first accepted connection, sizes are bytes. `play` runs in a simulation.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from loopcore.errors import UsageError
from loopcore.selection.catalogue import Catalogue
from loopcore.sim import scenario
from loopcore.sim.checking import innermost
from loopcore.sim.current import world
from loopcore.sim.errors import SimulationError

VERSION: Final = 1
READERS: Final = Catalogue("loopcore.traffic", "reader of recordings", UsageError)
"""Functions that take a Path and return its Traffic, or None if the file has another format. Raise UsageError, OSError.
The plugin `recorder` has one."""
JITTER: Final = 0.01
SHARES: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The delays of a packet in `played`, as shares of the jitter. The usual one is 0: the recorded times have production's
network in them already."""
PATIENCE: Final = 60.0


class UnansweredError(SimulationError):
    """A request has no answer that had one in the recording."""


class Move(NamedTuple):
    """Something that happened to a connection, as the server saw it."""

    at: float
    what: Literal["received", "sent", "end"]
    """"end": the client has sent all it had to send."""
    size: int = 0


class Exchange(NamedTuple):
    """A request, in the pieces in which it arrived, and its answer.

    The recording does not show where a request ends: all that arrived before the server sent something is one.
    """

    pieces: list[Move]
    answer: int
    """Bytes that the server sent before it received more; 0 if it sent none."""

    @property
    def size(self) -> int:
        """Bytes of the request; 0 if the server spoke first, or if this is only the end of the stream."""
        return sum(piece.size for piece in self.pieces)


@dataclass
class Connection:
    """A connection that the server accepted."""

    number: int
    """From 1, in the order of acceptance."""
    protocol: str
    """The name of the server's protocol class, or of its method."""
    accepted: float
    moves: list[Move] = field(default_factory=list)
    closed: float | None = None
    """None: it was open when the recording ended."""

    def exchanges(self) -> list[Exchange]:
        """Return what was asked and answered, in order."""
        found: list[tuple[list[Move], int]] = []
        for move in self.moves:
            if move.what == "sent":
                pieces, answer = found.pop() if found else ([], 0)
                found.append((pieces, answer + move.size))
            elif found and not found[-1][1]:
                found[-1][0].append(move)
            else:
                found.append(([move], 0))
        return [Exchange(*each) for each in found]


Request = Callable[[Connection, int], bytes]
"""Makes a request of so many bytes for a connection."""


@dataclass
class Traffic:
    """The connections of a recording, in the order in which they were accepted."""

    connections: list[Connection]
    seconds: float
    """From the first accepted connection to the end of the recording."""
    omitted: int = 0
    """Connections that were open when the recording began: what they sent before is unknown, so they are left out."""

    def to_json(self, path: Path) -> None:
        """Write it to a file that people can read and change. Raises OSError."""
        connections = [
            {
                "protocol": each.protocol,
                "accepted": each.accepted,
                "moves": [list(move) for move in each.moves],
                "closed": each.closed,
            }
            for each in self.connections
        ]
        facts = {"traffic": VERSION, "seconds": self.seconds, "omitted": self.omitted, "connections": connections}
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def from_json(cls, path: Path) -> "Traffic":
        """Return what `to_json` wrote. Raises UsageError for another file, OSError."""
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            if facts["traffic"] != VERSION:
                raise UsageError(f"{path} has traffic in the format {facts['traffic']}; this loopcore reads {VERSION}")
            return cls([_connection(number, each) for number, each in enumerate(facts["connections"], 1)],
                       float(facts["seconds"]), int(facts["omitted"]))  # fmt: skip
        except (ValueError, LookupError, TypeError) as exc:
            raise UsageError(
                f"{path} is neither a recording that an installed plugin reads nor a file of Traffic.to_json: "
                f"{type(exc).__name__}: {exc}"
            ) from exc

    @classmethod
    def read(cls, path: Path) -> "Traffic":
        """Return the traffic of a file: a recorder's dump, or one of `to_json`. Raises UsageError, OSError."""
        found = read_recording(path)
        return cls.from_json(path) if found is None else found


def read_recording(path: Path) -> Traffic | None:
    """Return the traffic of a recording, None if the file is not a recording. Raises UsageError, OSError."""
    for name in READERS.names():
        reader: Any = READERS.load(READERS.find(name))
        found: Traffic | None = reader(path)
        if found is not None:
            return found
    return None


def _connection(number: int, facts: dict[str, Any]) -> Connection:
    moves = [Move(float(at), what, int(size)) for at, what, size in facts["moves"]]
    closed = facts["closed"]
    if {move.what for move in moves} - {"received", "sent", "end"}:
        raise ValueError("a move is 'received', 'sent' or 'end'")
    return Connection(
        number, str(facts["protocol"]), float(facts["accepted"]), moves, None if closed is None else float(closed)
    )


# Requests of a given size


def lines(connection: Connection, size: int) -> bytes:
    """Return a line: the letter x as often as needed, and a line feed."""
    return b"x" * (size - 1) + b"\n"


def repeated(sample: bytes) -> Request:
    """Return a function that repeats `sample`, the bytes of a request, and cuts it off at the size."""
    if not sample:
        raise UsageError("a sample request has one byte or more")
    return lambda connection, size: (sample * (size // len(sample) + 1))[:size]


def http(target: str = "/", host: str = "server", method: str = "GET") -> Request:
    """Return a function that makes a request of HTTP/1.1, padded by a header. It raises UsageError for a small size."""
    start = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n".encode("ascii")

    def request(connection: Connection, size: int) -> bytes:
        shortest = len(start) + 2
        rest = size - shortest
        if rest == 0:
            return start + b"\r\n"
        if rest < 6:
            raise UsageError(
                f"connection {connection.number} received {size} bytes at once, and a request of HTTP for {target} has "
                f"{shortest}, or {shortest + 6} and more; make requests of that size with a function `request` of yours"
            )
        return start + b"P: " + b"x" * (rest - 5) + b"\r\n\r\n"

    return request


# Playing


def played(
    traffic: Traffic,
    program: Callable[[], Coroutine[Any, Any, Any]],
    *,
    request: Request = lines,
    port: int | None = None,
    speed: float = 1.0,
    jitter: float = JITTER,
    patience: float = PATIENCE,
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return the main program of a simulation that plays `traffic` against the server that `program()` starts.

    The server runs on the host "server". `port`: where it listens, if it listens at several ports. A
    packet comes up to `jitter` seconds later than in production, as the tape says. What the server reports to its
    loop's exception handler fails the run. The others are those of `play`.
    """

    if jitter < 0.0:
        raise UsageError(f"jitter is 0 or more, this is {jitter}")
    _check_speed(speed)

    async def main() -> None:
        server = scenario.host("server", program)
        scenario.link(scenario.this_host().name, "server", delays=[jitter * share for share in SHARES])
        scenario.always(_Reported(), "nothing is reported to an exception handler")
        address = await _listening(server, port)
        await play(traffic, address, request=request, speed=speed, patience=patience)

    return main


async def play(
    traffic: Traffic,
    address: tuple[str, int],
    *,
    request: Request = lines,
    speed: float = 1.0,
    patience: float = PATIENCE,
) -> None:
    """Open the connections of `traffic` to `address` at the recorded times, send, and read the answers.

    Runs on the host that calls; its log says when answers came. `request`: makes the bytes of a request, see
    `Exchange`. `speed`: 2.0 plays twice as fast. An answer has come with its first byte, since its size may depend on
    the contents.

    Raises UnansweredError if an answer does not come within `patience` simulated seconds; what connecting raises.
    """
    _check_speed(speed)
    begin = scenario.now()
    try:
        async with asyncio.TaskGroup() as group:
            for connection in traffic.connections:
                player = _Player(connection, begin, speed, patience)
                name = f"connection {connection.number}"
                group.create_task(player.play(address, request, traffic.seconds), name=name)
    except BaseExceptionGroup as several:
        raise innermost(several) from None


def _check_speed(speed: float) -> None:
    if not speed > 0.0:
        raise UsageError(f"speed is above 0, this is {speed}; 2.0 plays twice as fast")


class _Player:
    """One connection, as its client."""

    def __init__(self, connection: Connection, begin: float, speed: float, patience: float) -> None:
        self._connection = connection
        self._begin = begin
        self._speed = speed
        self._patience = patience
        self._came = 0
        self._ended = ""  # why nothing more will come
        self._news = asyncio.Event()

    async def play(self, address: tuple[str, int], request: Request, seconds: float) -> None:
        connection = self._connection
        await self._until(connection.accepted)
        reader, writer = await asyncio.open_connection(*address)
        reading = asyncio.create_task(self._read(reader), name=f"answers of connection {connection.number}")
        try:
            for number, exchange in enumerate(connection.exchanges(), 1):
                await self._ask(number, exchange, writer, request)
            await self._until(seconds if connection.closed is None else connection.closed)
            if not self._ended and not writer.is_closing():
                # An answer may still be on its way. A client that closes before it has come resets the connection.
                writer.write_eof()
                await asyncio.wait((reading,), timeout=self._patience)
        finally:
            reading.cancel()
            writer.close()
        try:
            await writer.wait_closed()
        except OSError:
            pass  # the server has reset it, which it may do now

    async def _ask(self, number: int, exchange: Exchange, writer: asyncio.StreamWriter, request: Request) -> None:
        content = memoryview(request(self._connection, exchange.size) if exchange.size else b"")
        if len(content) != exchange.size:
            raise UsageError(
                f"`request` made {len(content)} bytes for connection {self._connection.number}, "
                f"and {exchange.size} were recorded"
            )
        before = self._came
        for piece in exchange.pieces:
            await self._until(piece.at)
            if self._ended or writer.is_closing():
                break
            if piece.what == "end":
                writer.write_eof()
            else:
                writer.write(content[: piece.size])
                content = content[piece.size :]
        what = f"request {number} of connection {self._connection.number} ({exchange.size} bytes)"
        if exchange.answer:
            await self._answer(before, f"{what}, which got {exchange.answer} bytes in the recording")
            scenario.note(f"the answer to {what} comes")

    async def _answer(self, before: int, what: str) -> None:
        try:
            async with asyncio.timeout(self._patience):
                while self._came == before:
                    if self._ended:
                        raise UnansweredError(f"{self._ended} before it answered {what}")
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise UnansweredError(f"no answer within {self._patience:g} s to {what}") from None

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(1 << 16):
                self._came += len(data)
                self._news.set()
            self._ended = "the server closed the connection"
        except OSError as exc:
            self._ended = f"the connection was lost ({type(exc).__name__})"
        self._news.set()

    async def _until(self, at: float) -> None:
        delay = self._begin + at / self._speed - scenario.now()
        if delay > 0.0:
            await asyncio.sleep(delay)


async def _listening(server: Any, port: int | None) -> tuple[str, int]:
    """Return where the server listens, as soon as it does."""
    address: str = server.addresses[0]
    for _ in range(10_000):
        found = server.listening()
        ports = sorted({number for _, number in found if port is None or number == port})
        if len(ports) > 1:
            raise UsageError(
                f"the program listens at the ports {', '.join(map(str, ports))}; say which: --port {ports[0]}"
            )
        if ports:
            hosts = {where for where, _ in found}
            if hosts <= {"127.0.0.1", "::1"}:
                raise UsageError(
                    f"the program listens at {min(hosts)} only, where no other host reaches it; let it bind 0.0.0.0"
                )
            return address, ports[0]
        await asyncio.sleep(0.001)
    raise UsageError(
        "the program has not listened at a port of TCP within 10 simulated seconds; give its server's `main`"
    )


class _Reported:
    """Raises, once each, the exceptions that loops have reported."""

    def __init__(self) -> None:
        self._seen = 0

    def __call__(self) -> None:
        errors = world().errors
        while self._seen < len(errors):
            error = errors[self._seen].get("exception")
            self._seen += 1
            if isinstance(error, BaseException):
                raise error
