"""The command `loopcore sim`: search for a failure of a program, replay one, prove that it is deterministic."""

import argparse
import contextlib
import importlib.util
import os
import shlex
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import IO, Any, Final

GROUP: Final = "Measure and extend"
LIMIT: Final = 3600.0

Main = Callable[[], Coroutine[Any, Any, Any]]


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
    parser.set_defaults(act=act, group=GROUP)


def act(arguments: argparse.Namespace) -> int:
    """Run the command; the simulation is imported only now."""
    from loopcore.errors import UsageError

    for option in ("seeds", "jobs"):
        if getattr(arguments, option, 1) < 1:
            raise UsageError(f"--{option} is 1 or more")
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


def _level(name: str) -> Any:
    from loopcore.sim.tape import Level

    return Level[name.upper()]


def _run(arguments: argparse.Namespace) -> int:
    from loopcore.errors import UsageError
    from loopcore.sim.checking import OF_CHOICES, SEARCHES

    if arguments.search not in SEARCHES:
        raise UsageError(f"--search takes {', '.join(SEARCHES)}, not {arguments.search!r}")
    if arguments.jobs > 1:
        if arguments.search in OF_CHOICES:
            raise UsageError(f"the search {arguments.search} goes from run to run; it takes no --jobs")
        return _run_jobs(arguments)
    return _search(load(arguments.program), arguments, arguments.search, [])


def _search(main: Main, arguments: argparse.Namespace, by: str, options: list[str]) -> int:
    """Search, and print what was found; `options` are those that a replay needs."""
    from loopcore.errors import UsageError
    from loopcore.sim.checking import Search, in_words, search

    begin = shown = time.perf_counter()

    def progress(seen: Search) -> None:
        nonlocal shown
        now = time.perf_counter()
        if sys.stderr.isatty() and now - shown > 0.5:
            shown = now
            print(f"\r{seen.runs:,} runs, {seen.runs / (now - begin):,.0f} a second", end="", file=sys.stderr)

    seeds = range(arguments.first, arguments.first + arguments.seeds)
    level = _level(arguments.level)
    seen = search(main, seeds=seeds, by=by, level=level, limit=arguments.limit, progress=progress)
    if seen.runs == 1 and seen.failure is not None and isinstance(seen.failure.error, UsageError):
        raise seen.failure.error  # the command was given something that does not fit
    seconds = time.perf_counter() - begin
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
    if seen.failure is None:
        print("no run failed" + (", and there are no others" if seen.is_exhausted else ""))
        return 0
    if arguments.limit != LIMIT:
        options = [*options, "--limit", f"{arguments.limit:g}"]
    command = shlex.join(["loopcore", "sim", "replay", arguments.program, seen.failure.token, *options])
    print(in_words(seen.failure, command.replace("{", "{{").replace("}", "}}")))
    return 1


def _run_jobs(arguments: argparse.Namespace) -> int:
    """Split the seeds among processes; the first that finds a failure ends the others."""
    import subprocess
    import tempfile

    jobs = min(arguments.jobs, arguments.seeds)
    share, rest = divmod(arguments.seeds, jobs)
    first = arguments.first
    with contextlib.ExitStack() as ends:
        running: list[tuple[subprocess.Popen[bytes], IO[str]]] = []
        for job in range(jobs):
            count = share + (job < rest)
            command = [
                sys.executable, "-m", "loopcore", "sim", "run", arguments.program, "--seeds", str(count),
                "--first", str(first), "--level", arguments.level, "--search", arguments.search,
                "--limit", str(arguments.limit),
            ]  # fmt: skip
            first += count
            output = ends.enter_context(tempfile.TemporaryFile("w+"))  # a pipe that nobody reads would fill up
            process = subprocess.Popen(command, stdout=output)
            ends.callback(process.wait)
            ends.callback(process.kill)
            running.append((process, output))
        while running:
            for each in [*running]:
                code = each[0].poll()
                if code is None:
                    continue
                running.remove(each)
                each[1].seek(0)
                print(each[1].read(), end="")
                if code:
                    return code
            time.sleep(0.05)
    return 0


def _traffic(arguments: argparse.Namespace) -> Main:
    """Return the program that plays the traffic of a dump against a server."""
    from loopcore.sim import traffic

    recorded = traffic.Traffic.read(Path(arguments.program))
    main = load(arguments.on)
    request = getattr(sys.modules[main.__module__], "request", traffic.lines)
    if arguments.http is not None:
        request = traffic.http(arguments.http)
    elif arguments.sample is not None:
        request = traffic.repeated(arguments.sample.read_bytes())
    jitter = traffic.JITTER if arguments.jitter is None else arguments.jitter
    return traffic.played(
        recorded, main, request=request, port=arguments.port, speed=arguments.speed or 1.0, jitter=jitter
    )


def _replay_dump(arguments: argparse.Namespace) -> int:
    main = _traffic(arguments)
    names = ("port", "http", "sample", "jitter", "speed")
    given = {f"--{name}": getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    options = [text for name, value in given.items() for text in (name, str(value))]
    return _search(main, arguments, "mixed", ["--on", arguments.on, *options])


def _replay(arguments: argparse.Namespace) -> int:
    import traceback

    from loopcore.errors import UsageError

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

    folder = None if arguments.diagram is None else arguments.diagram.absolute().parent
    if folder is not None and not folder.is_dir():
        raise UsageError(f"--diagram: there is no folder {folder}")
    main = load(arguments.program) if arguments.on is None else _traffic(arguments)
    tape = Tape.from_token(arguments.token)
    outcome = simulate(main, tape, limit=arguments.limit)
    tape.end()
    log = outcome.log
    if arguments.hosts is not None:
        wanted = {*arguments.hosts.split(",")}
        known = {entry.host for entry in log}
        if unknown := wanted - known:
            raise UsageError(f"--hosts: no host {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
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
