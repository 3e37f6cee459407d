"""Messages: which entries of a log are the ends of one arrow, and what an entry is called in a report."""

from collections.abc import Sequence
from typing import NamedTuple

from loopcore.sim.log import LogEntry
from loopcore.text import printable


class Message(NamedTuple):
    """The entries with one flow: where it began, and each place where it arrived, as positions in the log."""

    begin: int
    arrivals: tuple[int, ...]


def find_messages(log: Sequence[LogEntry]) -> list[Message]:
    """Return the messages of `log` in the order of their beginnings.

    A message that is lost has no arrival, a duplicated one has several. An arrival whose beginning is not in `log`,
    which may be the last part of a longer one, belongs to no message.
    """
    flows: dict[int, list[int]] = {}
    for position, entry in enumerate(log):
        if entry.flow and (entry.flow in flows or entry.kind != "arrive"):
            flows.setdefault(entry.flow, []).append(position)
    return [Message(begin, tuple(arrivals)) for begin, *arrivals in flows.values()]


def hosts_of(log: Sequence[LogEntry]) -> list[str]:
    """Return the names of the hosts in the order in which they appear."""
    return list(dict.fromkeys(name for entry in log for name in (entry.host, entry.peer) if name))


def label_of(entry: LogEntry) -> str:
    """Return what an entry is called where its host and time are seen: "GET foo", or "crash: power cut"."""
    if entry.kind in ("send", "arrive", "note") and entry.text:
        return printable(entry.text)
    return printable(f"{entry.kind}: {entry.text}" if entry.text else entry.kind)
