"""Sequence diagrams as text: a column for each host, a row for each event, time downwards but not to scale.

                              client                                server
    0.010000                    |-------------- GET foo ------------->|
                                |                                     o (1) val-foo
    0.012000                    |-------------- GET bar -------------x|
    0.020000                    |<----------- (1) val-foo ------------|

A message whose arrival is the next event is one arrow, at the time of the arrival. Of any other message the beginning
is marked `o`, with a number that the arrow at its arrival repeats; a message that never arrives ends in `x`. `*` marks
all other events. A host that is down has no line. Only ASCII characters are drawn, so that any terminal and any log can
show it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from loopcore.sim.log import LogEntry
from loopcore.sim.report.messages import Message, find_messages, hosts_of, label_of
from loopcore.text import printable

_TIMES: Final = 13  # columns
_NARROWEST: Final = 3  # columns of a host


def sequence_diagram(log: Sequence[LogEntry], *, width: int = 100) -> str:
    """Return the diagram of `log`, lines of at most `width` columns; less than 40 are not enough.

    If there are too many hosts for the width, those with the fewest events are left out and named below.
    """
    width = max(width, 40)
    hosts = hosts_of(log)
    counts = Counter(entry.host for entry in log)
    room = max(1, (width - _TIMES) // _NARROWEST)
    drawn = set(sorted(hosts, key=lambda host: -counts[host])[:room])
    left_out = [host for host in hosts if host not in drawn]
    shown = [entry for entry in log if entry.host in drawn]
    lines = _Drawing([host for host in hosts if host in drawn], width).draw(shown)
    if left_out:
        lines += [f"Left out ({len(left_out)}): {printable(', '.join(left_out))}"]
    return "\n".join(lines) + "\n"


class _Drawing:
    def __init__(self, hosts: Sequence[str], width: int) -> None:
        self._width = width
        self._pitch = (width - _TIMES) // max(1, len(hosts))
        self._columns = {host: _TIMES + self._pitch * index + self._pitch // 2 for index, host in enumerate(hosts)}
        self._down: set[str] = set()

    def draw(self, log: Sequence[LogEntry]) -> list[str]:
        messages = find_messages(log)
        begins = {message.begin: message for message in messages}
        arrivals = {position: message for message in messages for position in message.arrivals}
        numbers: dict[Message, int] = {}
        lines = self._heads()
        time = ""
        for position, entry in enumerate(log):
            row = self._lifelines()
            if (message := begins.get(position)) is not None and message.arrivals == (position + 1,):
                continue  # the arrow at its arrival shows both
            if message is not None and message.arrivals:
                numbers[message] = len(numbers) + 1
                self._mark(row, entry.host, "o", f"({numbers[message]}) {label_of(entry)}")
            elif message is not None and entry.peer in self._columns and entry.kind == "send":
                self._arrow(row, entry.host, entry.peer, label_of(entry), is_lost=True)
            elif (message := arrivals.get(position)) is not None:
                number = f"({numbers[message]}) " if message in numbers else ""
                self._arrow(row, log[message.begin].host, entry.host, number + label_of(entry))
            elif entry.kind == "arrive" and entry.peer in self._columns:
                self._arrow(row, entry.peer, entry.host, label_of(entry))
            else:
                self._mark(row, entry.host, "*", label_of(entry))
            if entry.kind == "crash":
                self._down.add(entry.host)
            elif entry.kind == "restart":
                self._down.discard(entry.host)
            before, time = time, f"{entry.when:{_TIMES - 1}.6f}"
            lines.append((("" if time == before else time).ljust(_TIMES) + "".join(row[_TIMES:])).rstrip())
        return lines

    def _heads(self) -> list[str]:
        """Return the names above their lines, on as many rows as keep them apart."""
        longest = max((len(printable(host)) for host in self._columns), default=0)
        rows = min(len(self._columns), -(-(longest + 1) // self._pitch))
        lines = []
        for number in range(rows):
            row = [" "] * self._width
            for index, (host, column) in enumerate(self._columns.items()):
                if index % rows < number:
                    row[column] = "|"
                elif index % rows == number:
                    name = printable(host)[: self._width - _TIMES]
                    begin = min(max(_TIMES, column - (len(name) - 1) // 2), self._width - len(name))
                    row[begin : begin + len(name)] = name
            lines.append("".join(row).rstrip())
        return lines

    def _lifelines(self) -> list[str]:
        row = [" "] * self._width
        for host, column in self._columns.items():
            row[column] = " " if host in self._down else "|"
        return row

    def _mark(self, row: list[str], host: str, mark: str, label: str) -> None:
        row[self._columns[host]] = mark
        self._write(row, label, {"after": self._columns[host] + 2, "before": self._columns[host] - 1})

    def _arrow(self, row: list[str], sender: str, receiver: str, label: str, *, is_lost: bool = False) -> None:
        begin, end = self._columns.get(sender), self._columns[receiver]
        if begin is None or begin == end:
            self._mark(row, receiver, "x" if is_lost else "*", label)
            return
        step = 1 if end > begin else -1
        left, right = sorted((begin, end))
        row[left + 1 : right] = "-" * (right - left - 1)
        row[end - step] = ">" if step > 0 else "<"
        if is_lost:
            row[end - step] = "x"
        inside = right - left - 6
        if len(label) <= inside:
            start = left + 1 + (right - left - 1 - len(label)) // 2
            row[start - 1 : start + len(label) + 1] = f" {label} "
        else:
            self._write(row, label, {"after": right + 2, "before": left - 1})

    def _write(self, row: list[str], label: str, places: Mapping[str, int]) -> None:
        """Write `label` after or before a column, where there is more room; cut what does not fit."""
        after, before = self._width - places["after"], places["before"] - _TIMES
        room = after if len(label) <= after or after >= before else before
        if len(label) > room:
            label = label[: max(0, room - 3)] + "..."[: max(0, room)]
        start = places["after"] if room == after else places["before"] - len(label)
        row[start : start + len(label)] = label
