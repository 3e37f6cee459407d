"""The member with the least to do: a table in which every member writes one row, and which all of them read.

A row holds what the choice needs: how busy the loop was, how many connections are open, which servers it has, and how
many connections have arrived from each of the others. Only its member writes a row, and a cell is one number, so
nothing is locked. The row says which generation of the member that is, and one that was replaced leaves it alone.
Threads share a list, processes share memory; both are read and written by index.

**The choice.** The score of a member is its utilization, 0.0 to 1.0, plus its connections divided by the average of all
members. The lowest score is the least to do. Connections weigh in at once, utilization a tenth of a second later: by
utilization alone, all members would send everything to the same one until its next report.

A member that has not reported for `STALE` seconds counts as fully busy: its loop is blocked.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

PERIOD: Final = 0.1
"""Seconds between two reports of a member."""

STALE: Final = 3 * PERIOD
"""Seconds after which the last report of a member says nothing about its loop."""

MARGIN: Final = 0.1
"""A connection stays where it was accepted unless another score is lower by more: handing over costs a wake."""

SERVERS: Final = 48
"""How many open servers of a group can hand over; a cell is a float, whose integers have 53 bits."""

_BUSY, _STAMP, _CONNECTIONS, _SERVERS, _GENERATION, _ACCEPTED, _GIVEN, _FIXED = range(8)


class Cells(Protocol):
    """Numbers by index: a list, or shared memory as doubles."""

    def __getitem__(self, index: int, /) -> float: ...
    def __setitem__(self, index: int, value: float, /) -> None: ...


def cells_of(count: int) -> int:
    """Return how many cells the table of `count` members has."""
    return count * (_FIXED + count)


class LoadTable:
    """The rows of all members over `cells`, a list or shared memory. Thread: any."""

    def __init__(self, cells: Cells, count: int) -> None:
        self._cells = cells
        self.count = count
        self._width = _FIXED + count

    def begin(self, index: int, generation: int) -> None:
        """Give the row of a place to a member."""
        self.write(index, _GENERATION, generation)
        self.clear(index, generation)

    def clear(self, index: int, generation: int) -> None:
        """Clear the row of a member, unless the place has a successor.

        Totals stay: they belong to the place, and continue with its next member.
        """
        if self.belongs_to(index, generation):
            for cell in (_BUSY, _STAMP, _CONNECTIONS, _SERVERS):
                self.write(index, cell, 0.0)

    def belongs_to(self, index: int, generation: int) -> bool:
        """Return whether the member that has the row of a place is of this generation."""
        return self.read(index, _GENERATION) == generation

    def count_arrival(self, index: int, sender: int) -> None:
        """Count a connection that has arrived from `sender`, also if the member is retired.

        From the count `sender` knows how many are still on their way.
        """
        self.write(index, _FIXED + sender, self.read(index, _FIXED + sender) + 1)

    def read(self, index: int, cell: int) -> float:
        """Return one number of a row."""
        return float(self._cells[index * self._width + cell])

    def write(self, index: int, cell: int, value: float) -> None:
        """Set one number of a row."""
        self._cells[index * self._width + cell] = float(value)

    def figures(self, index: int) -> tuple[float, int, int, int, int]:
        """Return utilization, connections, accepted, handed over and taken over of a member."""
        taken = sum(self.read(index, _FIXED + other) for other in range(self.count))
        return (
            self.read(index, _BUSY),
            int(self.read(index, _CONNECTIONS)),
            int(self.read(index, _ACCEPTED)),
            int(self.read(index, _GIVEN)),
            int(taken),
        )


class Load:
    """One member's row, and its view of the others. Thread: the member's loop."""

    def __init__(
        self, table: LoadTable, index: int, clock: Callable[[], float] = time.monotonic, generation: int = 0
    ) -> None:
        self._table = table
        self._index = index
        self._generation = generation
        self._clock = clock
        self._sent = [0] * table.count
        self._seen = [int(table.read(other, _FIXED + index)) for other in range(table.count)]
        self._servers = 0
        self._is_retired = False
        self.connections = 0
        self.accepted = int(table.read(index, _ACCEPTED))
        self.handed_over = int(table.read(index, _GIVEN))
        self.utilization = 0.0
        table.begin(index, generation)

    def retire(self) -> None:
        """Stop publishing: the row belongs to the member that replaces this one. `choose` keeps every connection."""
        self._table.clear(self._index, self._generation)
        self._is_retired = True

    def resume(self) -> None:
        """Publish again, because the replacement has failed."""
        self._is_retired = False
        self._table.begin(self._index, self._generation)
        self._write(_CONNECTIONS, self.connections)
        self._write(_SERVERS, self._servers)

    def _write(self, cell: int, value: float) -> None:
        if not self._is_retired and self._table.belongs_to(self._index, self._generation):
            self._table.write(self._index, cell, value)

    def report(self, utilization: float) -> None:
        """Publish how busy the loop was since the last report."""
        self.utilization = min(1.0, max(0.0, utilization))
        self._write(_BUSY, self.utilization)
        self._write(_STAMP, self._clock())

    def opened(self) -> None:
        """Count a connection that this member serves."""
        self.connections += 1
        self._write(_CONNECTIONS, self.connections)

    def closed(self) -> None:
        """Count the end of a connection."""
        self.connections -= 1
        self._write(_CONNECTIONS, self.connections)

    def accept(self) -> None:
        """Count an accepted connection, served here or handed over."""
        self.accepted += 1
        self._write(_ACCEPTED, self.accepted)

    def give(self, target: int) -> None:
        """Count a connection that is on its way to `target`."""
        self.handed_over += 1
        self._sent[target] += 1
        self._write(_GIVEN, self.handed_over)

    def take(self, sender: int) -> None:
        """Count a connection that has come from `sender`."""
        self._table.count_arrival(self._index, sender)

    def offer(self, number: int, is_open: bool) -> None:
        """Publish whether this member takes connections for server `number`."""
        bit = 1 << number
        self._servers = self._servers | bit if is_open else self._servers & ~bit
        self._write(_SERVERS, self._servers)

    def choose(self, number: int) -> int | None:
        """Return the index of the member that should serve the next connection of server `number`, None for this."""
        if self._is_retired:
            return None
        now, bit = self._clock(), 1 << number
        counts = {self._index: float(self.connections)}
        for other in range(self._table.count):
            if other != self._index and int(self._table.read(other, _SERVERS)) & bit:
                counts[other] = self._table.read(other, _CONNECTIONS) + self._on_the_way(other)
        average = max(1.0, sum(counts.values()) / len(counts))
        scores = {other: self._busy(other, now) + count / average for other, count in counts.items()}
        least = min(scores, key=lambda other: (scores[other], other))
        return least if scores[least] < scores[self._index] - MARGIN else None

    def _on_the_way(self, other: int) -> int:
        """Return how many connections this member has given to `other` that `other` has not counted yet.

        They count as its load: its row changes only when its loop runs, and until then all of a burst would go to it.
        """
        arrived = int(self._table.read(other, _FIXED + self._index)) - self._seen[other]
        return max(0, self._sent[other] - arrived)

    def _busy(self, other: int, now: float) -> float:
        if other == self._index:
            return self.utilization
        if now - self._table.read(other, _STAMP) > STALE:
            return 1.0
        return self._table.read(other, _BUSY)
