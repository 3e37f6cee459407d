"""A server under load: the conversation with its process and with the load generator.

The order is fixed: `prepare` until the client is ready, `run` for the loaded interval, `finish`. What is measured
around `run` is the caller's business.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from loopcore_bench.measure import checked
from loopcore_bench.process import Child, MeasurementError
from tests.benchmarks.harness.netrows import NetRow

_ANSWER_TIMEOUT = 60.0
_CLOSE_TIMEOUT = 10.0
_LOOK_AGAIN = 0.05


@dataclass(slots=True)
class Session:
    """One row on one server. `patience` is how many seconds the client may take for a step."""

    row: NetRow
    server: Child
    client: Child
    patience: float
    _warm: dict[str, Any] = field(init=False, default_factory=dict)
    _idle_bytes: float = field(init=False, default=0.0)

    def prepare(self) -> None:
        """Connect and warm up; open the idle connections, and note what they cost the server in memory."""
        if self.row.idle:
            self._expect("warm")
            self._warm = self._ask("state")
            self.client.tell("go")
        self._expect("ready")
        if self.row.idle:
            self._idle_bytes = (self._ask("state")["rss_bytes"] - self._warm["rss_bytes"]) / self.row.idle

    def usage(self) -> dict[str, Any]:
        """CPU time and peak memory of the server."""
        return self._ask("usage")

    def measure(self) -> dict[str, float]:
        """A loaded interval, and what it cost the server; raises as `run`. More than one if no connections are idle."""
        before = self.usage()
        result = self.run()
        after = self.usage()
        requests, seconds = int(result["requests"]), float(result["seconds"])
        return {
            "cpu_ns": (after["cpu_ns"] - before["cpu_ns"]) / requests,
            "wall_ns": seconds * 1e9 / requests,
            "requests": requests,
            "per_second": requests / seconds,
            "p50_us": float(result["p50_us"]),
            "p99_us": float(result["p99_us"]),
            "peak_kib": after["peak_kib"],
            **({"resent": result["resent"], "late": result["late"]} if self.row.over == "udp" else {}),
        }

    def run(self) -> dict[str, Any]:
        """The loaded interval; returns the client's figures. Raises MeasurementError when a single request failed.

        Raises NotInstalledError when the server died of a method that its loop does not implement.
        """
        self.client.tell("go")
        result = self.client.read_json(self.patience)
        checked(result, self.server)
        return result

    def finish(self) -> dict[str, float]:
        """Idle connections must still answer; then the client goes, and what the server does not close is counted."""
        if not self.row.idle:
            return {}
        self._expect("idle")
        self.client.tell("go")
        answered = int(self.client.read_json(self.patience)["answered"])
        if answered != self.row.idle:
            raise MeasurementError(f"only {answered} of {self.row.idle} idle connections answered at the end")
        self.client.tell("go")  # it ends, and with it all connections
        return {"bytes_per_idle": self._idle_bytes, "left_open": self._left_open()}

    def _left_open(self) -> int:
        """How many files more the server has open than when only the active ones were connected, at the last look."""
        deadline = time.monotonic() + _CLOSE_TIMEOUT
        while (excess := self._ask("state")["files"] - self._warm["files"]) > 0 and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN)
        return max(0, int(excess))

    def _ask(self, question: str) -> dict[str, Any]:
        self.server.tell(question)
        return self.server.read_json(_ANSWER_TIMEOUT)

    def _expect(self, expected: str) -> None:
        word = self.client.read_line(self.patience)
        if word != expected:
            raise MeasurementError(f"the load generator said {word!r} where {expected!r} was expected")
