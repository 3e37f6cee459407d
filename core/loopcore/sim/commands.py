"""The command `loopcore sim`: search for a failure of a program, replay one, prove that it is deterministic."""

import argparse
import contextlib
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from loopcore.sim.checking import Search, SearchName
    from loopcore.sim.tape import Level

GROUP: Final = "Measure and extend"
LIMIT: Final = 3600.0

Main = Callable[[], Coroutine[Any, Any, Any]]
T = TypeVar("T")


def sim(parser: argparse.ArgumentParser) -> None:
    """Simulate a program: search for a failure over many schedules, replay it, or prove that it is deterministic.

    FILE has a coroutine function `main`, or FILE:NAME names another. `replay DUMP --on FILE` plays the connections of a
    recorder's dump against the server that FILE starts. The exit code of `run` is 1 if a failure was found, that of
    `twice` 1 if two runs of a seed differed, that of `replay` 1 if a run failed.
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="run|replay|twice")
    run = actions.add_parser("run", help="search for a seed that fails, and shrink it")
    replay = actions.add_parser("replay", help="repeat the run of a token")
    twice = actions.add_parser("twice", help="run every seed twice, and compare")
    replay.add_argument("program", metavar="FILE[:NAME]|DUMP", help="the program of the token, or a recorder's dump")
    for each in (run, twice):
        each.add_argument("program", metavar="FILE[:NAME]", help="the program, and its coroutine function")
    for each in (run, replay, twice):
        each.add_argument("--limit", type=float, default=LIMIT, metavar="S", help="simulated seconds of a run")
    replay.add_argument("token", metavar="TOKEN", nargs="?", help="the token that was printed with the failure")
    replay.add_argument("--on", metavar="FILE[:NAME]", help="the server that gets the connections of DUMP")
    replay.add_argument("--port", type=int, metavar="N", help="where it listens, if it listens at several ports")
    replay.add_argument("--http", metavar="TARGET", help="send requests of HTTP for this target, such as /")
    replay.add_argument("--sample", type=Path, metavar="FILE", help="send the bytes of this file, again and again")
    replay.add_argument("--jitter", type=float, metavar="S", help="how late packets may come (default: 0.01 seconds)")
    replay.add_argument("--speed", type=float, metavar="X", help="play so many times faster (default: 1)")
    replay.add_argument("--trace", type=Path, metavar="FILE", help="write a trace for Perfetto here")
    replay.add_argument("--diagram", type=Path, metavar="FILE", help="draw who sent what to whom here, as SVG")
    replay.add_argument("--hosts", metavar="NAMES", help="show and draw only these hosts: names with commas")
    for each in (run, replay, twice):
        each.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many seeds to try (default: 1000)")
        each.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them (default: 0)")
        each.add_argument("--level", choices=("io", "wake", "all"), default="io", help="what may differ from asyncio")
    run.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that search (default: 1)")
    run.add_argument("--search", default="mixed", metavar="KIND", help="mixed, random, pct, bounded, coverage or fifo")
    run.add_argument("--is-job", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(act=act, group=GROUP)


def act(arguments: argparse.Namespace) -> int:
    """Run the command; the simulation is imported only now."""
    from loopcore.errors import UsageError

    for option in ("seeds", "jobs"):
        if getattr(arguments, option, 1) < 1:
            raise UsageError(f"--{option} is 1 or more, not {getattr(arguments, option)}")
    pin_hash_seed()
    try:
        return {"run": _run, "replay": _replay, "twice": _twice}[arguments.action](arguments)
    except KeyboardInterrupt:
        print("interrupted; no failure was found so far", file=sys.stderr)
        return 130


def pin_hash_seed() -> None:
    """Start this command again with PYTHONHASHSEED=0, unless it is set: the order of sets of strings depends on it."""
    if os.environ.get("PYTHONHASHSEED", "random") == "random":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def load(program: str) -> Main:
    """Return the coroutine function of `FILE` or `FILE:NAME`. Raises UsageError if there is none."""
    from loopcore.errors import UsageError

    path, colon, name = program.rpartition(":")
    if not colon or path.endswith(os.sep):
        path, name = program, "main"
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{path} is no file; give a file of Python with a coroutine function `main`")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    sys.path.insert(0, str(file.parent))
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise UsageError(f"{path} has no function {name!r}; write FILE:NAME for another")
    main: Main = found
    return main


def _level(name: str) -> "Level":
    from loopcore.sim.tape import Level

    return Level[name.upper()]


def _run(arguments: argparse.Namespace) -> int:
    from loopcore.errors import UsageError
    from loopcore.sim.checking import OF_CHOICES, SEARCHES

    if arguments.search not in SEARCHES:
        raise UsageError(f"--search takes {', '.join(SEARCHES)}, not {arguments.search!r}")
    if not __debug__ and not arguments.is_job:
        from loopcore.text import print_on_stderr

        text = "under -O or PYTHONOPTIMIZE a program has no assert statements, so what they check cannot fail"
        print_on_stderr(f"loopcore: warning: {text}")
    if arguments.jobs > 1:
        if arguments.search in OF_CHOICES:
            raise UsageError(f"the search {arguments.search} goes from run to run; it takes no --jobs")
        return _run_jobs(arguments)
    return _search(load(arguments.program), arguments, arguments.search, [])


def _search(main: Main, arguments: argparse.Namespace, by: "SearchName", options: list[str]) -> int:
    """Search, and print what was found; `options` are those that a replay needs."""
    from loopcore.errors import UsageError
    from loopcore.sim.checking import Search, in_words, search

    shows = _Progress()
    is_job = getattr(arguments, "is_job", False)

    def progress(seen: Search) -> None:
        if shows.is_due():
            if is_job:
                _print_for_jobs(seen)
            else:
                shows.show(seen)

    seeds = range(arguments.first, arguments.first + arguments.seeds)
    level = _level(arguments.level)
    seen = search(main, seeds=seeds, by=by, level=level, limit=arguments.limit, progress=progress)
    if seen.runs == 1 and seen.failure is not None and isinstance(seen.failure.error, UsageError):
        raise seen.failure.error  # the command was given something that does not fit
    failure = None
    if seen.failure is not None:
        if arguments.limit != LIMIT:
            options = [*options, "--limit", f"{arguments.limit:g}"]
        command = shlex.join(["loopcore", "sim", "replay", arguments.program, seen.failure.token, *options])
        failure = in_words(seen.failure, command.replace("{", "{{").replace("}", "}}"))
    if is_job:
        _print_for_jobs(seen, failure)
    else:
        shows.end(seen, failure)
    return 1 if failure else 0


class _Progress:
    """What a search prints: a line that changes on a terminal, and the counts at the end."""

    def __init__(self) -> None:
        self._begin = self._shown = time.perf_counter()

    def is_due(self) -> bool:
        """Return whether half a second has passed since it last returned True."""
        now = time.perf_counter()
        if now - self._shown < 0.5:
            return False
        self._shown = now
        return True

    def show(self, seen: "Search") -> None:
        """Show how far a search has come, on a terminal."""
        if sys.stderr.isatty():
            speed = seen.runs / (time.perf_counter() - self._begin)
            print(f"\r{seen.runs:,} runs, {speed:,.0f} a second", end="", file=sys.stderr)

    def end(self, seen: "Search", failure: str | None) -> None:
        """Print the counts of a search that is over, and its failure."""
        seconds = time.perf_counter() - self._begin
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)
        print(
            f"{seen.runs:,} runs in {seconds:.1f} s: {seen.steps / seconds:,.0f} steps and "
            f"{seen.seconds / seconds:,.0f} simulated seconds a second"
        )
        for name, count in sorted(seen.reached.items(), key=lambda item: item[1]):
            print(f"  reached {name!r} in {count:,} of them")
        for refused in sorted(seen.refused):
            print(f"  not simulated, and caught by the program: {refused}")
        print(failure or "no run failed" + (", and there are no others" if seen.is_exhausted else ""))


def _print_for_jobs(seen: "Search", failure: str | None = None) -> None:
    """Print the counts as the process reads them that started this one: a line of JSON."""
    counts = {"runs": seen.runs, "seconds": seen.seconds, "steps": seen.steps, "failure": failure}
    print(json.dumps({**counts, "reached": seen.reached, "refused": sorted(seen.refused)}), flush=True)


class _Job:
    """A process that searches a share of the seeds."""

    def __init__(self, arguments: argparse.Namespace, first: int, count: int, output: IO[str]) -> None:
        command = [
            sys.executable, *["-O"] * sys.flags.optimize, "-m", "loopcore", "sim", "run", arguments.program,
            "--seeds", str(count), "--first", str(first), "--level", arguments.level, "--search", arguments.search,
            "--limit", str(arguments.limit), "--is-job",
        ]  # fmt: skip
        self._output = output
        self.process = subprocess.Popen(command, stdout=output)

    def end(self) -> None:
        """End the process, if it still runs."""
        self.process.kill()
        self.process.wait()

    def counts(self) -> dict[str, Any]:
        """Return what it printed last; empty if it has printed nothing yet."""
        self._output.seek(0)
        lines = [line for line in self._output if line.startswith("{") and line.endswith("}\n")]
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return found


def _total(jobs: list[_Job]) -> "tuple[Search, str | None]":
    """Return the counts of all jobs added up, and the first failure."""
    from loopcore.sim.checking import Search

    total, failure = Search(), None
    for counts in filter(None, (job.counts() for job in jobs)):
        total.runs += counts["runs"]
        total.seconds += counts["seconds"]
        total.steps += counts["steps"]
        total.reached.update(counts["reached"])
        total.refused.update(counts["refused"])
        failure = failure or counts["failure"]
    return total, failure


def _run_jobs(arguments: argparse.Namespace) -> int:
    """Split the seeds among processes; the first that finds a failure ends the others."""
    load(arguments.program)  # reports a missing function once, not in each process
    number = min(arguments.jobs, arguments.seeds)
    share, rest = divmod(arguments.seeds, number)
    first = arguments.first
    shows = _Progress()
    with contextlib.ExitStack() as ends:
        jobs: list[_Job] = []
        for job in range(number):
            count = share + (job < rest)
            output = ends.enter_context(tempfile.TemporaryFile("w+"))  # a pipe would fill up between two looks
            jobs.append(_Job(arguments, first, count, output))
            ends.callback(jobs[-1].end)
            first += count
        codes: list[int | None] = [None]
        while None in codes and not any(codes):
            time.sleep(0.05)
            codes = [job.process.poll() for job in jobs]
            if shows.is_due():
                shows.show(_total(jobs)[0])
        code = next(filter(None, codes), 0)
        total, failure = _total(jobs)
    if code in (0, 1):
        shows.end(total, failure)
    return code


def _traffic(arguments: argparse.Namespace) -> Main:
    """Return the program that plays the traffic of a dump against a server."""
    from loopcore.sim import traffic

    recorded = _read(Path(arguments.program), traffic.Traffic.read)
    main = load(arguments.on)
    request = getattr(sys.modules[main.__module__], "request", traffic.lines)
    if arguments.http is not None:
        request = traffic.http(arguments.http)
    elif arguments.sample is not None:
        request = traffic.repeated(_read(arguments.sample, Path.read_bytes))
    jitter = traffic.JITTER if arguments.jitter is None else arguments.jitter
    speed = 1.0 if arguments.speed is None else arguments.speed
    return traffic.played(recorded, main, request=request, port=arguments.port, speed=speed, jitter=jitter)


def _read(path: Path, read: Callable[[Path], T]) -> T:
    """Return `read(path)`. Raises UsageError if the file cannot be read."""
    from loopcore.errors import UsageError

    try:
        return read(path)
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}") from None


def _replay_dump(arguments: argparse.Namespace) -> int:
    from loopcore.errors import UsageError

    for name in ("trace", "diagram", "hosts"):
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name} needs a TOKEN: it shows one run, and without a token there are many")
    main = _traffic(arguments)
    names = ("port", "http", "sample", "jitter", "speed")
    given = {f"--{name}": getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    options = [text for name, value in given.items() for text in (name, str(value))]
    return _search(main, arguments, "mixed", ["--on", arguments.on, *options])


def _replay(arguments: argparse.Namespace) -> int:
    import traceback

    from loopcore.errors import UsageError, check_writable

    if arguments.token is None and arguments.on is not None:
        return _replay_dump(arguments)
    if arguments.token is None:
        raise UsageError(
            "give the TOKEN of a run after FILE; to play a recorder's dump, name the server: "
            f"loopcore sim replay {arguments.program} --on FILE"
        )

    from loopcore.sim.report.diagram import sequence_diagram
    from loopcore.sim.report.svg import sequence_svg
    from loopcore.sim.report.trace import write_trace
    from loopcore.sim.running import simulate
    from loopcore.sim.tape import Tape

    for path in (arguments.trace, arguments.diagram):
        if path is not None:
            check_writable(path)
    main = load(arguments.program) if arguments.on is None else _traffic(arguments)
    tape = Tape.from_token(arguments.token)
    outcome = simulate(main, tape, limit=arguments.limit)
    tape.end()
    log = outcome.log
    if arguments.hosts is not None:
        wanted = {*arguments.hosts.split(",")}
        known = {entry.host for entry in log}
        if unknown := wanted - known:
            there = f"there are {', '.join(sorted(known))}" if known else "this run has none to show"
            raise UsageError(f"--hosts: no host {', '.join(sorted(unknown))}; {there}")
        log = [entry for entry in log if entry.host in wanted and (not entry.peer or entry.peer in wanted)]
    print(sequence_diagram(log))
    if arguments.trace is not None:
        write_trace(log, arguments.trace)
    if arguments.diagram is not None:
        arguments.diagram.write_text(sequence_svg(log), encoding="utf-8")
    if tape.divergence is not None:
        print(f"the run is not that of the token: {tape.divergence}", file=sys.stderr)
    if outcome.error is None:
        print("the run did not fail")
        return 0
    traceback.print_exception(outcome.error)
    return 1


def _twice(arguments: argparse.Namespace) -> int:
    from loopcore.sim.checking import diverges

    main = load(arguments.program)
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        found = diverges(main, seed, level=_level(arguments.level), limit=arguments.limit)
        if found is not None:
            print(f"two runs of seed {found.seed} differ: {found.where}")
            return 1
    print(f"{arguments.seeds:,} seeds, twice each: no difference")
    return 0
