"""One measurement: start the processes, collect the figures, end the processes."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from loopbench.loops import FLOOR, LoopSpec
from loopbench.native import compile_program
from loopbench.netrows import NetRow
from loopbench.process import Child, MeasurementError, ask, module_command
from loopbench.work import Work

Metrics = dict[str, float]

_START_TIMEOUT = 60.0
_MICRO_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for every measurement of a run. `requests` bounds a network row instead of `seconds` when not 0."""

    scale: float = 1.0
    seconds: float = 1.0
    requests: int = 0
    warmup: float = 0.2
    gc: str = "on"
    pin: bool = True


def micro_count(work: Work, settings: Settings) -> int:
    """How many operations of a micro workload are run."""
    return max(2, round(work.count * settings.scale))


def measure_micro(work: Work, spec: LoopSpec, settings: Settings) -> Metrics:
    """One micro workload in a fresh process."""
    count = micro_count(work, settings)
    command = [*module_command(spec, "child"), "micro", "--work", work.name, "--count", str(count)]
    return ask([*command, "--gc", settings.gc], _MICRO_TIMEOUT)


def choose_cpus(pin: bool) -> tuple[int | None, int | None]:
    """The CPUs of server and client: the first and the last that this process may use, when there are two."""
    allowed = sorted(os.sched_getaffinity(0))
    if not pin or len(allowed) < 2:
        return None, None
    return allowed[0], allowed[-1]


@dataclass(slots=True)
class NetBench:
    """The compiled programs, and the way to measure a network row with them.."""

    settings: Settings
    directory: Path
    load: Path = field(init=False)
    floor: Path = field(init=False)

    def __post_init__(self) -> None:
        self.load = compile_program("load", self.directory)
        self.floor = compile_program("floor", self.directory)

    def measure(self, row: NetRow, spec: LoopSpec) -> Metrics:
        """One network row: fresh server, fresh client, CPU time of the server over the loaded interval."""
        server_cpu, client_cpu = choose_cpus(self.settings.pin)
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "socket") if row.unix else None
            with Child(self._server_command(row, spec, path), cpu=server_cpu) as server:
                port = int(server.read_json(_START_TIMEOUT)["port"])
                with Child(self._load_command(row, port, path), cpu=client_cpu) as client:
                    return self._exchange(server, client)

    def _exchange(self, server: Child, client: Child) -> Metrics:
        patience = _START_TIMEOUT + self.settings.seconds * 5
        word = client.read_line(patience)
        if word != "ready":
            raise MeasurementError(f"the load generator said {word!r}")
        before = self._usage(server)
        client.tell("go")
        result = client.read_json(patience)
        after = self._usage(server)
        requests = int(result["requests"])
        if result["errors"] or not requests:
            raise MeasurementError(f"{result['errors']} errors in {requests} requests; {server.last_words()}")
        seconds = float(result["seconds"])
        return {
            "cpu_ns": (after["cpu_ns"] - before["cpu_ns"]) / requests,
            "wall_ns": seconds * 1e9 / requests,
            "requests": requests,
            "per_second": requests / seconds,
            "p50_us": float(result["p50_us"]),
            "p99_us": float(result["p99_us"]),
            "peak_kib": after["peak_kib"],
        }

    @staticmethod
    def _usage(server: Child) -> Metrics:
        server.tell("usage")
        return server.read_json(_START_TIMEOUT)

    def _server_command(self, row: NetRow, spec: LoopSpec, path: str | None) -> list[str]:
        where = [] if path is None else ["--unix", path]
        if spec.name == FLOOR:
            return [str(self.floor), *where]
        command = [*module_command(spec, "server"), "--kind", row.kind, "--size", str(row.size)]
        return [*command, "--gc", self.settings.gc, *where]

    def _load_command(self, row: NetRow, port: int, path: str | None) -> list[str]:
        command = [str(self.load), "--conns", str(row.conns), "--size", str(row.size), "--idle", str(row.idle)]
        command += ["--port", str(port)] if path is None else ["--unix", path]
        command += ["--seconds", str(self.settings.seconds), "--requests", str(self.settings.requests)]
        command += ["--warmup", str(self.settings.warmup)]
        return command + ["--churn"] * row.churn + ["--http"] * row.http
