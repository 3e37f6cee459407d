"""A recording written by the layout, without a loop: tests say what happened, in milliseconds since the first tick."""

import json
import struct
from pathlib import Path
from typing import Any

from loopcore_plugins.recorder.layout import HEADER, LONGEST, MAGIC, VERSION, Kind, Word

START = 5_000_000_000_000
"""Monotonic nanoseconds of the first tick."""
EPOCH = 1_700_000_000_000_000_000
PER_STEP = 2
"""Nanoseconds that a step of the counter takes."""
SOON, THREADSAFE, TIMER, IO, TASK = range(5)
LABELS_SIZE = 4096


class Builder:
    """Writes records in order; `at` is the time of the next ones, in milliseconds."""

    def __init__(self, capacity: int = 1024) -> None:
        self.capacity = capacity
        self.records: list[bytes] = []
        self.labels: dict[tuple[str, str, int], int] = {}
        self.at = 0.0
        self.facts: dict[str, Any] = {
            "reason": "command",
            "detail": "",
            "pid": 77,
            "python": "3.14.0",
            "loopcore": "0.1",
            "backend": "epoll",
            "program": "app.py",
            "loop_clock_is_monotonic": True,
            "tasks": [],
            "stalls": [],
        }
        self._last_tick = START - 1000
        self.tick()

    def ns(self, at: float | None = None) -> int:
        return START + round((self.at if at is None else at) * 1e6)

    def label(self, name: str, file: str = "/srv/app.py", line: int = 1) -> int:
        return self.labels.setdefault((name, file, line), len(self.labels) + 1)

    def record(self, kind: int, argument: int = 0, label: int = 0, who: int = 0) -> None:
        steps = min((self.ns() - self._last_tick) // PER_STEP, LONGEST)
        self.records.append(struct.pack("<QQ", kind | argument << 8 | label << 16 | steps << 32, who))

    # What happens

    def tick(self, events: int = 0) -> None:
        self.record(Kind.TICK, label=events, who=self.ns())
        self._last_tick = self.ns()

    def wait(self, until: float | None = None, *, events: int = 0, gil: float = 0.0) -> None:
        """Wait until a time; None only looks."""
        self.record(Kind.WAIT, argument=until is not None)
        self.at = self.at + 0.01 if until is None else until
        if gil:
            self.record(Kind.GIL, who=round(gil * 1e6))
        self.tick(events)

    def begin(self, who: int, name: str, source: int = TASK, line: int = 1) -> None:
        self.record(Kind.BEGIN, source, self.label(name, line=line), who)

    def step(self, who: int, name: str, took: float, source: int = TASK, line: int = 1) -> None:
        """Run something for so many milliseconds."""
        self.begin(who, name, source, line)
        self.at += took

    def wake(self, who: int, name: str, source: int = TASK, kind: Kind = Kind.WAKE) -> None:
        self.record(kind, source, self.label(name), who)

    def name(self, who: int, name: str) -> None:
        self.record(Kind.NAME, label=self.label(name, "", 0), who=who)

    def done(self, who: int, outcome: int = 1) -> None:
        self.record(Kind.DONE, outcome, who=who)

    def site(self, who: int, *frames: tuple[str, str, int]) -> None:
        for frame in frames:
            self.record(Kind.SITE, label=self.label(*frame), who=who)

    def due(self, deadline: float) -> None:
        self.record(Kind.DUE, who=self.ns(deadline))

    def clocks(self, cpu: float, run_queue: float = 0.0) -> None:
        self.record(Kind.CPU, who=round(cpu * 1e6))
        self.record(Kind.RUN_QUEUE, who=round(run_queue * 1e6))

    def submit(self, job: int, name: str) -> None:
        self.record(Kind.JOB_SUBMITTED, label=self.label(name), who=job)

    def job(self, job: int, name: str, started: float, ended: float, thread: str = "loopcore_0") -> None:
        self.record(Kind.JOB, label=self.label(name), who=job)
        self.record(Kind.JOB_STARTED, label=self.label(thread, "", 0), who=self.ns(started))
        self.record(Kind.JOB_ENDED, who=self.ns(ended))

    def stall(self, cause: str, begin: float, end: float, cpu: float = 0.0, **more: Any) -> None:
        self.facts["stalls"].append(
            {"number": 1, "ended_ns": self.ns(end), "seconds": (end - begin) / 1e3, "cpu_seconds": cpu / 1e3}
            | {"cause": cause, "stack": [], "task": None, "holder": None, "request": None}
            | more
        )

    # The file

    def content(self, *, is_dump: bool = True) -> bytes:
        area = b"".join(
            struct.pack("<I", len(text)) + text for text in ("\n".join(map(str, key)).encode() for key in self.labels)
        )
        self.facts.setdefault("at_ns", self.ns())
        facts = json.dumps(self.facts).encode() if is_dump else b""
        words = [0] * (HEADER // 8)
        words[Word.MAGIC], words[Word.VERSION], words[Word.PID] = MAGIC, VERSION, 77
        words[Word.CAPACITY], words[Word.WRITTEN] = self.capacity, len(self.records)
        words[Word.LABELS_AT] = HEADER + self.capacity * 16
        words[Word.LABELS_SIZE], words[Word.LABELS_USED] = LABELS_SIZE, len(area)
        words[Word.WALL_NS], words[Word.MONOTONIC_NS], words[Word.FACTS] = EPOCH, START, len(facts)
        ring = [bytes(16)] * self.capacity
        for number, record in enumerate(self.records):
            ring[number % self.capacity] = record
        header = struct.pack(f"<{len(words)}Q", *words)
        return header + b"".join(ring) + area.ljust(LABELS_SIZE, b"\0") + facts

    def write(self, path: Path, *, is_dump: bool = True) -> Path:
        path.write_bytes(self.content(is_dump=is_dump))
        return path
