"""The network rows: which server, which load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_KIB = 1024

Over = Literal["tcp", "unix", "udp", "tls", "pipe"]


@dataclass(frozen=True, slots=True)
class NetRow:
    """One row: `kind` names the application, the rest is what the load generator does to it."""

    name: str
    kind: str
    size: int
    conns: int
    over: Over = "tcp"
    idle: int = 0
    churn: bool = False
    http: bool = False

    @property
    def operation(self) -> str:
        """What one operation is, for the table."""
        size = f"{self.size // _KIB} KiB" if self.size >= _KIB else f"{self.size} B"
        what = f"{size} over a fresh connection" if self.churn else f"{size} there and back"
        if self.http:
            what = f"one GET answered with {size}"
        ends = ("client socket" if self.over == "udp" else "connection") + "s" * (self.conns != 1)
        beside = f", {self.idle} idle ones beside" if self.idle else ""
        over = ", TLS" if self.over == "tls" else ""
        return f"{self.kind}: {what}, {self.conns} {ends}{beside}{over}"

    @property
    def has_floor(self) -> bool:
        """HTTP, TLS and pipes have no floor: the C server neither parses nor encrypts, and has sockets only."""
        return not self.http and self.over not in ("tls", "pipe")


def _short(size: int) -> str:
    return f"{size // _KIB}k" if size >= _KIB else str(size)


def _echoes(prefix: str, kind: str, sizes: tuple[int, ...], conns: tuple[int, ...], over: Over = "tcp") -> list[NetRow]:
    return [NetRow(f"{prefix}-{_short(s)}-{c}", kind, s, c, over) for s in sizes for c in conns]


def _idle(thousands: int) -> NetRow:
    return NetRow(f"idle-{thousands}k" if thousands else "idle-0", "protocol", _KIB, 10, idle=thousands * 1000)


_SIZES = (64, _KIB, 16 * _KIB, 100 * _KIB)


def _usual() -> list[NetRow]:
    return [
        *_echoes("tcp", "protocol", _SIZES, (1, 10, 100)),
        *_echoes("buffered", "buffered", (_KIB, 100 * _KIB), (10,)),
        *_echoes("streams", "streams", (_KIB, 100 * _KIB), (10,)),
        *_echoes("streams-own", "streams-own", (_KIB, 100 * _KIB), (10,)),
        *_echoes("sock", "sock", (_KIB, 100 * _KIB), (10,)),
        *_echoes("split", "split", (_KIB, 16 * _KIB), (10, 100)),
        *_echoes("unix", "protocol", _SIZES, (1, 10, 100), "unix"),
        *_echoes("udp", "datagram", (64, _KIB), (10,), "udp"),
        *_echoes("tls", "protocol", (_KIB, 100 * _KIB), (10,), "tls"),
        *_echoes("pipe", "pipe", (_KIB,), (1,), "pipe"),
        *[_idle(thousands) for thousands in (0, 1, 5)],
        NetRow("churn-10", "protocol", _KIB, 10, churn=True),
        NetRow("uvicorn-100", "uvicorn", 128, 100, http=True),
        NetRow("aiohttp-100", "aiohttp", 128, 100, http=True),
    ]


def _wide() -> list[NetRow]:
    return [
        *_echoes("tcp", "protocol", _SIZES, (400,)),
        *_echoes("split", "split", (_KIB, 16 * _KIB), (400,)),
        *_echoes("udp", "datagram", (64, _KIB), (1, 100), "udp"),
        *_echoes("tls", "protocol", (_KIB, 100 * _KIB), (100,), "tls"),
        NetRow("churn-100", "protocol", _KIB, 100, churn=True),
        NetRow("uvicorn-tls-100", "uvicorn", 128, 100, "tls", http=True),
        _idle(10),
    ]


NET: dict[str, NetRow] = {row.name: row for row in _usual()}
WIDE: dict[str, NetRow] = {row.name: row for row in _wide()}
"""Many connections and what else is measured less often; the group `net` is without them."""
