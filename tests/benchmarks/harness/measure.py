"""One measurement: start the processes, collect the figures, end the processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loopcore_bench.loops import LoopSpec
from loopcore_bench.measure import choose_cpus
from loopcore_bench.process import Child, MeasurementError, NotInstalledError, ask
from loopcore_bench.rounds import Metrics
from loopcore_bench.work import Work
from tests.benchmarks.harness.callgrind import Instructions, ServerCounts
from tests.benchmarks.harness.certificates import Certificates, make_certificates
from tests.benchmarks.harness.floors import FLOOR
from tests.benchmarks.harness.native import Programs, compile_programs
from tests.benchmarks.harness.netrows import NetRow
from tests.benchmarks.harness.process import module_command
from tests.benchmarks.harness.session import Session
from tests.benchmarks.harness.steady import Line, medians, steady
from tests.benchmarks.harness.strace import Strace, Syscalls

if sys.platform != "win32":
    import resource

_START_TIMEOUT = 60.0
_COUNTED_TIMEOUT = 900.0
"""Seconds that a server may take to start, or for its requests, where its instructions are counted."""
_MICRO_TIMEOUT = 120.0
"""Seconds that the child of a workload may take at scale 1."""
_LARGEST_SCALE_OF_BYTES = 4.0
"""What counts bytes needs memory for each operation, and tells no more with more of them."""
_OTHER_FILES = 200
"""What a process has open besides its connections, and some more."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for every measurement of a run.

    `requests` bounds a turn of a network row instead of `seconds`, which is for all its turns, when not 0.
    """

    scale: float = 1.0
    seconds: float = 1.0
    requests: int = 0
    warmup: float = 0.2
    gc: str = "on"
    pin: bool = True
    turns: int = 1

    @property
    def turn(self) -> float:
        """Seconds of one turn."""
        return self.seconds / self.turns


def micro_count(work: Work, settings: Settings) -> int:
    """How many operations of a micro workload are run."""
    scale = min(settings.scale, _LARGEST_SCALE_OF_BYTES) if work.primary == "bytes" else settings.scale
    return max(2, round(work.count * scale))


def measure_micro(work: Work, spec: LoopSpec, settings: Settings) -> Metrics:
    """One micro workload in a fresh process."""
    count = micro_count(work, settings)
    command = [*module_command(spec, "child"), "--work", work.name, "--count", str(count)]
    return ask([*command, "--gc", settings.gc], _MICRO_TIMEOUT * max(1.0, settings.scale))


def allow_files(count: int) -> None:
    """Let this process and its children have so many open files. Raises NotInstalledError where the system refuses."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(count, hard)))
    except (ValueError, PermissionError):
        raise NotInstalledError(f"{count} open files are needed, the hard limit is {hard} (ulimit -Hn)") from None


@contextlib.contextmanager
def _noting(found: dict[str, Metrics | Exception], label: str) -> Iterator[None]:
    """Put down why a loop cannot be measured."""
    try:
        yield
    except (NotInstalledError, MeasurementError) as error:
        found[label] = error


@dataclass(slots=True)
class NetBench:
    """The compiled programs, and the way to measure a network row with them. Raises NoCompilerError without those."""

    settings: Settings
    directory: Path
    programs: Programs = field(init=False)
    _certificates: Certificates | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.programs = compile_programs(self.directory)

    def measure(self, row: NetRow, spec: LoopSpec) -> Metrics:
        """One network row: fresh server, fresh client, CPU time of the server over the loaded interval."""
        with self._session(row, spec) as session:
            session.prepare()
            return {**session.measure(), **session.finish()}

    def measure_in_turns(self, row: NetRow, specs: list[LoopSpec]) -> dict[str, Metrics | Exception]:
        """One network row without idle connections on several loops, by label: medians of turns, or why there are none.

        All servers are up, each with a client, and one after the other is loaded for its part of the interval, so that
        what slows the machine for a moment slows parts of several loops; that is taken out (`steady`).
        """
        found: dict[str, Metrics | Exception] = {}
        turns: list[Line] = []
        sessions: dict[str, Session] = {}
        with contextlib.ExitStack() as stack:
            for spec in specs:
                with _noting(found, spec.label):
                    session = stack.enter_context(self._session(row, spec))
                    session.prepare()
                    sessions[spec.label] = session
            for number in range(self.settings.turns):
                turns.append({})
                order = list(sessions)
                shift = number % max(1, len(order))
                for label in order[shift:] + order[:shift]:
                    if label not in found:
                        with _noting(found, label):
                            turns[-1][label] = sessions[label].measure()
        turns = steady(turns)
        return {spec.label: found.get(spec.label) or medians(turns, spec.label) for spec in specs}

    def count_syscalls(self, row: NetRow, spec: LoopSpec) -> Syscalls:
        """System calls of the server over the loaded interval of a network row."""
        with tempfile.TemporaryDirectory() as scratch, self._session(row, spec) as session:
            session.prepare()
            with Strace(session.server.pid, Path(scratch)) as strace:
                requests = int(session.run()["requests"])
            session.finish()
        return Syscalls(row.name, spec.label, requests, strace.calls)

    def count_instructions(self, row: NetRow, spec: LoopSpec, profile: Path | None = None) -> Instructions:
        """Instructions of the server over the loaded interval of a network row, outside the kernel.

        `profile` is where callgrind's file of that interval is left. Raises NotInstalledError without valgrind, and
        for io_uring, whose system calls it does not know.
        """
        if spec.backend == "uring":
            raise NotInstalledError("valgrind does not know io_uring")
        with tempfile.TemporaryDirectory() as scratch:
            counts = ServerCounts(Path(scratch))
            with self._session(row, spec, counts.command, _COUNTED_TIMEOUT) as session:
                session.prepare()
                before = counts.parts()
                session.usage()
                looks = counts.parts() - before
                part = before + looks + 1
                requests = int(session.run()["requests"])
                session.usage()
                if counts.parts() != before + 2 * looks:
                    raise MeasurementError("the server looked at its CPU time under load: its counts are divided there")
                found = counts.instructions(part)
                session.finish()
                if profile is not None:
                    shutil.copyfile(counts.file(part), profile)
        return Instructions(spec.label, row.name, requests, 0, found)

    @contextlib.contextmanager
    def _session(
        self, row: NetRow, spec: LoopSpec, under: Sequence[str] = (), timeout: float = _START_TIMEOUT
    ) -> Iterator[Session]:
        """Start both processes, the server under a program, if one is named, and within `timeout` seconds.

        Raises NotInstalledError when the row cannot be had here.
        """
        server_cpu, client_cpu = choose_cpus(self.settings.pin)
        certificates = self._certify() if row.over == "tls" else None
        allow_files(row.idle + row.conns + _OTHER_FILES)
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "socket") if row.over in ("unix", "pipe") else None
            with Child(self._server_command(row, spec, path, certificates), cpu=server_cpu, under=under) as server:
                port = int(server.read_json(timeout)["port"])
                with Child(self._load_command(row, port, path, certificates), cpu=client_cpu) as client:
                    yield Session(row, server, client, timeout + self.settings.seconds * 5)

    def _certify(self) -> Certificates:
        if self.programs.no_tls is not None:
            raise NotInstalledError(self.programs.no_tls)
        if self._certificates is None:
            self._certificates = make_certificates(self.directory)
        return self._certificates

    def _server_command(
        self, row: NetRow, spec: LoopSpec, path: str | None, certificates: Certificates | None
    ) -> list[str]:
        where = ([] if path is None else [f"--{row.over}", path]) + ["--udp"] * (row.over == "udp")
        if spec.name == FLOOR:
            return [str(self.programs.floor), *where]
        command = [*module_command(spec, "server"), "--kind", row.kind, "--size", str(row.size)]
        if certificates is not None:
            command += ["--certificate", str(certificates.server)]
        return [*command, "--gc", self.settings.gc, *where]

    def _load_command(self, row: NetRow, port: int, path: str | None, certificates: Certificates | None) -> list[str]:
        command = [str(self.programs.load), "--conns", str(row.conns), "--size", str(row.size)]
        command += ["--idle", str(row.idle), "--warmup", str(self.settings.warmup)]
        command += ["--port", str(port)] if path is None else [f"--{row.over}", path]
        seconds = self.settings.seconds if row.idle else self.settings.turn
        command += ["--seconds", str(seconds), "--requests", str(self.settings.requests)]
        if certificates is not None:
            command += ["--tls", str(certificates.authority)]
        return command + ["--churn"] * row.churn + ["--http"] * row.http + ["--udp"] * (row.over == "udp")
