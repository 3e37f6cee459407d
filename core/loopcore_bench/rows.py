"""The rows that can be measured, by name, and how rows are chosen."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from loopcore_bench.work import Row, all_micro

R = TypeVar("R")

_KIB = 1024


@dataclass(frozen=True, slots=True)
class NetRow:
    """One row over TCP: `kind` names the application of server.py, the rest configures the load generator."""

    name: str
    kind: str
    size: int
    conns: int

    @property
    def operation(self) -> str:
        """The operation, described for the table."""
        size = f"{self.size // _KIB} KiB" if self.size >= _KIB else f"{self.size} B"
        return f"{self.kind}: {size} there and back, {self.conns} connection{'s' * (self.conns != 1)}"


NET = {
    row.name: row
    for row in (
        NetRow("tcp-64-1", "protocol", 64, 1),
        NetRow("tcp-1k-10", "protocol", _KIB, 10),
        NetRow("tcp-100k-10", "protocol", 100 * _KIB, 10),
        NetRow("streams-1k-10", "streams", _KIB, 10),
    )
}


def all_rows() -> dict[str, Row]:
    """Every row by name, in the order of the table."""
    return {**all_micro(), **NET}


def choose(text: str, known: Mapping[str, R], groups: Mapping[str, Iterable[str]]) -> list[R]:
    """Rows of `known` for groups, names and patterns, separated by commas. Raises ValueError for an unknown one."""
    chosen: dict[str, R] = {}
    for word in map(str.strip, text.split(",")):
        names = groups[word] if word in groups else fnmatch.filter(known, word)
        if not names:
            near = difflib.get_close_matches(word, [*known, *groups]) or [*groups, *list(known)[:3], "tcp-1k-10", "..."]
            raise ValueError(f"no workload {word!r}; `loopcore bench --list` shows all, such as {', '.join(near)}")
        chosen.update({name: known[name] for name in names})
    return list(chosen.values())


def choose_rows(text: str) -> list[Row]:
    """Rows for names and patterns; `all` is every row. Raises ValueError for an unknown one."""
    return choose(text, all_rows(), {"all": all_rows()})
