"""Loops in threads of one process against processes of one loop: requests a second, CPU time and memory.

    python tests/benchmarks/cores/run.py --threads loopcore@PYTHON3.13T,asyncio@PYTHON3.13T \\
        --processes loopcore@PYTHON3.13,uvloop@PYTHON3.13,asyncio@PYTHON3.13 --loops 1,2,4,8 --work echo,compute,http

A loop is written `[label=]name[:backend][@python]`. With `--threads` N loops run in threads of one process, with
`--processes` one in each of N processes. Linux only; needs a C compiler, and uvicorn in each Python for `http`.

- `echo`: a protocol repeats 1 KiB;
- `compute`: the same, after 4,000 steps of Python for each request;
- `http`: uvicorn with its default parser and an application that answers 1 KiB.

Each loop has a port, its share of the connections and a load generator (closed loop, a C program, a process), so a
figure does not depend on how connections spread over the loops; group/uneven.py measures that. The generators need
processors as well. On a machine with few, compare the CPU time of a request, which leaves them out, or
keep them apart with `--server-cpus` and `--client-cpus`.

Cases take turns in each round, and the median of the rounds is printed. `x 1` compares requests/s with one loop of the
same kind. Memory is the sum over the processes under load: PSS counts a shared page in parts, RSS in each process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":  # the harness of this tree, before an installed one
    sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "core"), str(Path(__file__).resolve().parents[3])]

from loopcore_bench.loops import LoopSpec, parse_loop
from tests.benchmarks.harness.native import compile_programs

SIZE = 1024
"""Bytes of a message."""

WARM_UP = 0.5
"""Seconds."""


class Case(NamedTuple):
    """What is measured: `work` on so many loops, in threads of one process or in processes."""

    work: str
    spec: LoopSpec
    threads: bool
    loops: int


class Figures(NamedTuple):
    rate: float
    """Requests a second."""
    cpu_us: float
    """Of the servers, for a request."""
    p99_us: float
    """The greatest of the load generators'."""
    pss_mib: float
    rss_mib: float
    gil: bool
    facts: dict[str, str]


class Child:
    """A process that answers lines by lines. Lives for the `with` block."""

    def __init__(self, command: list[str], cpus: set[int]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if cpus:
            os.sched_setaffinity(self._process.pid, cpus)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def send(self, line: str = "") -> None:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)

    def line(self) -> str:
        """Its next line. Raises RuntimeError if it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"it ended with {self._process.wait()}: {self._process.args!r}")
        return line.strip()

    def object(self) -> Any:
        return json.loads(self.line())


def start_servers(case: Case, stack: contextlib.ExitStack, cpus: set[int]) -> list[Child]:
    processes, loops = (1, case.loops) if case.threads else (case.loops, 1)
    command = [case.spec.python, str(Path(__file__).with_name("serve.py")), "--loop", case.spec.name]
    command += ["--work", case.work, "--size", str(SIZE), "--loops", str(loops)]
    if case.spec.backend is not None:
        command += ["--backend", case.spec.backend]
    return [stack.enter_context(Child(command, cpus)) for _ in range(processes)]


def usage(servers: list[Child]) -> list[dict[str, Any]]:
    for server in servers:
        server.send()
    return [server.object() for server in servers]


def measure(case: Case, load: Path, options: argparse.Namespace) -> Figures:
    """Serve and load one case. Raises RuntimeError if a process ends, or an answer is wrong or missing."""
    with contextlib.ExitStack() as stack:
        servers = start_servers(case, stack, options.server_cpus)
        started = [server.object() for server in servers]
        ports = [port for each in started for port in each["ports"]]
        share = str(max(1, options.connections // len(ports)))
        command = [str(load), "--host", "127.0.0.1", "--conns", share, "--size", str(SIZE)]
        command += ["--seconds", str(options.seconds), "--warmup", str(WARM_UP)]
        command += ["--http"] if case.work == "http" else []
        loads = [stack.enter_context(Child([*command, "--port", str(port)], options.client_cpus)) for port in ports]
        for each in loads:
            if (line := each.line()) != "ready":
                raise RuntimeError(f"the load generator answered {line!r}")
        before = usage(servers)
        for each in loads:
            each.send()
        results = [each.object() for each in loads]
        after = usage(servers)
    if any(result["errors"] or result["wrong"] for result in results):
        raise RuntimeError(f"wrong or missing answers: {case}: {results}")
    requests = sum(result["requests"] for result in results)
    cpu_ns = sum(each["cpu_ns"] for each in after) - sum(each["cpu_ns"] for each in before)
    return Figures(
        requests / max(result["seconds"] for result in results),
        cpu_ns / requests / 1000,
        max(result["p99_us"] for result in results),
        sum(each["memory_kib"]["pss"] for each in after) / 1024,
        sum(each["memory_kib"]["rss"] for each in after) / 1024,
        any(each["gil"] for each in started),
        started[0]["facts"],
    )


def median(rounds: list[Figures], name: str) -> float:
    return float(statistics.median(getattr(each, name) for each in rounds))


def table(found: dict[Case, list[Figures]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| work | loop | Python | GIL | loops | requests/s | x 1 | CPU us/request | p99 ms | PSS MiB | RSS MiB |"
    yield "|---|---|---|---|---|---:|---:|---:|---:|---:|---:|"
    for case, rounds in found.items():
        facts, gil = rounds[0].facts, "on" if rounds[0].gil else "off"
        rate = median(rounds, "rate")
        one = found.get(case._replace(loops=1))
        times = "" if one is None else f"{rate / median(one, 'rate'):.2f}"
        what = " ".join((case.spec.label, facts.get("build", "")))
        names = ("thread", "threads") if case.threads else ("process", "processes")
        where = f"{case.loops} {names[case.loops > 1]}"
        yield (
            f"| {case.work} | {what.strip()} | {facts['python']} | {gil} | {where} | {rate:,.0f} | {times} "
            f"| {median(rounds, 'cpu_us'):.1f} | {median(rounds, 'p99_us') / 1000:.2f} "
            f"| {median(rounds, 'pss_mib'):.1f} | {median(rounds, 'rss_mib'):.1f} |"
        )


def cpus(text: str) -> set[int]:
    return {int(each) for each in text.split(",")}


def specs(text: str) -> list[LoopSpec]:
    return [parse_loop(each) for each in text.split(",") if each]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=specs, default=[], help="loops that run in threads, separated by commas")
    parser.add_argument("--processes", type=specs, default=[], help="loops that run in processes")
    parser.add_argument("--loops", default="1,2", help="how many loops")
    parser.add_argument("--work", default="echo,compute", help="echo, compute, http")
    parser.add_argument("--connections", type=int, default=64, help="of all loops together")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--server-cpus", type=cpus, default=set(), help="processors of the servers, as 0,1")
    parser.add_argument("--client-cpus", type=cpus, default=set(), help="processors of the load generators")
    options = parser.parse_args()
    if not options.threads and not options.processes:
        parser.error("there is nothing to measure: give loops with --threads or --processes")
    kinds = [(spec, True) for spec in options.threads] + [(spec, False) for spec in options.processes]
    cases = [
        Case(work, spec, threads, int(count))
        for work in options.work.split(",")
        for spec, threads in kinds
        for count in options.loops.split(",")
    ]
    found: dict[Case, list[Figures]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        load = compile_programs(Path(folder)).load
        for number in range(options.rounds):
            for case in cases:
                found[case].append(measure(case, load, options))
                print(f"round {number + 1}: {case.work}, {case.spec.label}, {case.loops}", file=sys.stderr)
    print(*table(found), sep="\n")


if __name__ == "__main__":
    main()
