"""The traffic of a dump, for `loopcore sim replay`: what the accepted connections received and sent, and when.

Only recordings made with the option `connections` have it. An entry point in the group `loopcore.traffic`.
"""

from pathlib import Path
from typing import Final

from loopcore.errors import UsageError
from loopcore.sim.traffic import Connection, Move, Traffic
from loopcore_plugins.recorder.files import MAGIC
from loopcore_plugins.recorder.layout import Kind
from loopcore_plugins.recorder.reading import Event, Recording, read

_BY: Final = (Kind.RECEIVED_BY, Kind.SENT_BY)


def read_traffic(path: Path) -> Traffic | None:
    """Return the traffic of a dump or a mapped file, None if the file is neither. Raises UsageError, OSError."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return None
    return traffic_of(read(path))


def traffic_of(recording: Recording) -> Traffic:
    """Return the traffic of a recording. Raises UsageError if it has none."""
    begin: int | None = None
    connections: list[Connection] = []
    open_ones: dict[int, Connection] = {}
    opened: set[int] = set()  # with those that the program opened itself
    omitted: set[int] = set()
    for event in recording.events:
        if event.kind is Kind.OPENED:
            opened.add(event.who)
            if event.argument:
                begin = event.at if begin is None else begin
                name = recording.label(event.label).name
                connection = Connection(len(connections) + 1, name, (event.at - begin) / 1e9)
                connections.append(connection)
                open_ones[event.who] = connection
        elif event.kind in _BY and event.who not in opened:
            omitted.add(event.who)
        elif event.kind in _BY and event.who in open_ones and begin is not None:
            open_ones[event.who].moves.append(_move(event, begin))
        elif event.kind is Kind.CLOSED:
            opened.discard(event.who)
            closed = open_ones.pop(event.who, None)
            if closed is not None and begin is not None:
                closed.closed = (event.at - begin) / 1e9
    for connection in connections:
        _drop_idle_reads(connection)
    _check(recording, connections)
    return Traffic(connections, (recording.end - (begin or 0)) / 1e9, len(omitted))


def _move(event: Event, begin: int) -> Move:
    size = event.label | event.argument << 16
    at = (event.at - begin) / 1e9
    if event.kind is Kind.SENT_BY:
        return Move(at, "sent", size)
    return Move(at, "received", size) if size else Move(at, "end")


def _drop_idle_reads(connection: Connection) -> None:
    """Keep the first of the reads without bytes after which none has any: it found the end of the stream."""
    moves = connection.moves
    last = max((place for place, move in enumerate(moves) if move.what == "received"), default=-1)
    ends = [place for place, move in enumerate(moves) if move.what == "end" and place > last]
    connection.moves = [move for place, move in enumerate(moves) if move.what != "end" or place in ends[:1]]


def _check(recording: Recording, connections: list[Connection]) -> None:
    if not any(connection.moves for connection in connections):
        raise UsageError(
            f"{recording.path} has no bytes of a connection that a server accepted; "
            "record with the option `connections`: LOOPCORE_PLUGINS=recorder:connections=yes"
        )
