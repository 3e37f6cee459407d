"""One measurement: start the processes, collect the figures, end the processes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

from loopcore_bench.loops import LoopSpec
from loopcore_bench.process import Child, MeasurementError, NotInstalledError, ask, module_command, package_command
from loopcore_bench.rounds import Metrics
from loopcore_bench.rows import NetRow
from loopcore_bench.work import Row, Work

_START_TIMEOUT = 60.0
_MICRO_TIMEOUT = 120.0
"""Seconds that the child of a workload may take at scale 1."""
_WARMUP = 0.2
"""Seconds of unmeasured load before a network row."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of every measurement of a run: a factor on the counts of micro workloads, and seconds of load."""

    scale: float = 1.0
    seconds: float = 1.0


def measure(row: Row, spec: LoopSpec, settings: Settings) -> Metrics:
    """Measure a row on a loop. Raises NotInstalledError with a reason if it cannot, MeasurementError if it failed."""
    if isinstance(row, Work):
        return _measure_micro(row, spec, settings)
    assert isinstance(row, NetRow)
    return _measure_net(row, spec, settings)


def _measure_micro(work: Work, spec: LoopSpec, settings: Settings) -> Metrics:
    count = max(2, round(work.count * settings.scale))
    command = [*module_command(spec, "loopcore_bench.child"), "micro", "--work", work.name, "--count", str(count)]
    return ask(command, _MICRO_TIMEOUT * max(1.0, settings.scale))


def _measure_net(row: NetRow, spec: LoopSpec, settings: Settings) -> Metrics:
    """Fresh server, fresh client, CPU time of the server over the loaded interval."""
    server_cpu, client_cpu = choose_cpus(pin=True)
    serve = [*module_command(spec, "loopcore_bench.server"), "--kind", row.kind, "--size", str(row.size)]
    with Child(serve, cpu=server_cpu) as server:
        port = int(server.read_json(_START_TIMEOUT)["port"])
        load = [*package_command("loopcore_bench.load"), "--port", str(port), "--size", str(row.size)]
        load += ["--conns", str(row.conns), "--seconds", str(settings.seconds), "--warmup", str(_WARMUP)]
        with Child(load, cpu=client_cpu) as client:
            return _measure_interval(server, client, _START_TIMEOUT + settings.seconds * 5)


def _measure_interval(server: Child, client: Child, patience: float) -> Metrics:
    if (word := client.read_line(patience)) != "ready":
        raise MeasurementError(f"the load generator said {word!r} where 'ready' was expected")
    before = _cpu_of(server)
    client.tell("go")
    result = client.read_json(patience)
    after = _cpu_of(server)
    requests, seconds = checked(result, server), float(result["seconds"])
    return {
        "cpu_ns": (after - before) / requests,
        "wall_ns": seconds * 1e9 / requests,
        "requests": requests,
        "per_second": requests / seconds,
        "p50_us": float(result["p50_us"]),
        "p99_us": float(result["p99_us"]),
    }


def checked(result: dict[str, Any], server: Child) -> int:
    """How many requests were answered correctly. Raises MeasurementError when a single one failed.

    Raises NotInstalledError when the server died of a method that its loop does not implement.
    """
    requests, errors, wrong = (int(result[key]) for key in ("requests", "errors", "wrong"))
    if wrong:
        raise MeasurementError(f"{wrong} answers were not what had been sent; {server.last_words()}")
    if errors and server.last_words().startswith("NotImplementedError"):
        raise NotInstalledError("not implemented by this loop")
    if errors or not requests:
        raise MeasurementError(f"{errors} errors in {requests} requests; {server.last_words()}")
    return requests


def _cpu_of(server: Child) -> int:
    server.tell("usage")
    return int(server.read_json(_START_TIMEOUT)["cpu_ns"])


def choose_cpus(pin: bool) -> tuple[int | None, int | None]:
    """The CPUs of server and client: the first and the last that this process may use, when there are two."""
    if not pin or sys.platform != "linux":
        return None, None
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return None, None
    return allowed[0], allowed[-1]
