"""The network rows: which server, which load."""

from __future__ import annotations

from dataclasses import dataclass

_KIB = 1024


@dataclass(frozen=True, slots=True)
class NetRow:
    """One row: `kind` names the application, the rest is what the load generator does to it."""

    name: str
    kind: str
    size: int
    conns: int
    idle: int = 0
    unix: bool = False
    churn: bool = False
    http: bool = False

    @property
    def operation(self) -> str:
        """What one operation is, for the table."""
        size = f"{self.size // _KIB} KiB" if self.size >= _KIB else f"{self.size} B"
        what = f"{size} over a fresh connection" if self.churn else f"{size} there and back"
        if self.http:
            what = f"one GET answered with {size}"
        beside = f", {self.idle} idle ones beside" if self.idle else ""
        return f"{self.kind}: {what}, {self.conns} connections{beside}"

    @property
    def has_floor(self) -> bool:
        """HTTP has no floor: the C server does not parse."""
        return not self.http


def _short(size: int) -> str:
    return f"{size // _KIB}k" if size >= _KIB else str(size)


def _echoes(
    prefix: str, kind: str, sizes: tuple[int, ...], conns: tuple[int, ...], *, unix: bool = False
) -> list[NetRow]:
    return [NetRow(f"{prefix}-{_short(s)}-{c}", kind, s, c, unix=unix) for s in sizes for c in conns]


def _rows() -> list[NetRow]:
    all_sizes = (64, _KIB, 16 * _KIB, 100 * _KIB)
    return [
        *_echoes("tcp", "protocol", all_sizes, (1, 10, 100)),
        *_echoes("buffered", "buffered", (_KIB, 100 * _KIB), (10,)),
        *_echoes("streams", "streams", (_KIB, 100 * _KIB), (10,)),
        *_echoes("sock", "sock", (_KIB, 100 * _KIB), (10,)),
        *_echoes("split", "split", (_KIB, 16 * _KIB), (10, 100)),
        *_echoes("unix", "protocol", all_sizes, (10,), unix=True),
        *[NetRow(f"idle-{_short(n * _KIB) if n else 0}", "protocol", _KIB, 10, idle=n * 1000) for n in (0, 1, 5)],
        NetRow("churn-10", "protocol", _KIB, 10, churn=True),
        NetRow("uvicorn-100", "uvicorn", 128, 100, http=True),
        NetRow("aiohttp-100", "aiohttp", 128, 100, http=True),
    ]


NET: dict[str, NetRow] = {row.name: row for row in _rows()}
