"""The command `loopcore sim`: search for a failure of a program, replay one, prove that it is deterministic."""

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

GROUP: Final = "Measure and extend"

Main = Callable[[], Coroutine[Any, Any, Any]]


def sim(parser: argparse.ArgumentParser) -> None:
    """Simulate a program: search for a failure over many schedules, replay it, or prove that it is deterministic.

    FILE has a coroutine function `main`, or FILE:NAME names another. The exit code of `run` is 1 if a failure was
    found, that of `twice` 1 if two runs of a seed differed, that of `replay` 1 if the run failed.
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="run|replay|twice")
    run = actions.add_parser("run", help="search for a seed that fails, and shrink it")
    replay = actions.add_parser("replay", help="repeat the run of a token")
    twice = actions.add_parser("twice", help="run every seed twice, and compare")
    for each in (run, replay, twice):
        each.add_argument("program", metavar="FILE[:NAME]", help="the program, and its coroutine function")
        each.add_argument("--limit", type=float, default=3600.0, metavar="S", help="simulated seconds of a run")
    replay.add_argument("token", metavar="TOKEN", help="the token that was printed with the failure")
    replay.add_argument("--trace", type=Path, metavar="FILE", help="write a trace for Perfetto here")
    replay.add_argument("--diagram", type=Path, metavar="FILE", help="draw who sent what to whom here, as SVG")
    replay.add_argument("--hosts", metavar="NAMES", help="show and draw only these hosts: names with commas")
    for each in (run, twice):
        each.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many seeds to try (default: 1000)")
        each.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them (default: 0)")
        each.add_argument("--level", choices=("io", "wake", "all"), default="io", help="what may differ from asyncio")
    run.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that search (default: 1)")
    run.add_argument("--search", default="mixed", metavar="KIND", help="mixed, random, pct, bounded or fifo")
    parser.set_defaults(act=act, group=GROUP)


def act(arguments: argparse.Namespace) -> int:
    """Run the command; the simulation is imported only now."""
    pin_hash_seed()
    return {"run": _run, "replay": _replay, "twice": _twice}[arguments.action](arguments)


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
    from loopcore.sim.checking import SEARCHES, Search, in_words, search

    if arguments.search not in SEARCHES:
        raise UsageError(f"--search takes {', '.join(SEARCHES)}, not {arguments.search!r}")
    if arguments.jobs > 1:
        return _run_jobs(arguments)
    main = load(arguments.program)
    begin = shown = time.perf_counter()

    def progress(seen: Search) -> None:
        nonlocal shown
        now = time.perf_counter()
        if sys.stderr.isatty() and now - shown > 0.5:
            shown = now
            print(f"\r{seen.runs:,} runs, {seen.runs / (now - begin):,.0f} a second", end="", file=sys.stderr)

    seeds = range(arguments.first, arguments.first + arguments.seeds)
    level = _level(arguments.level)
    seen = search(main, seeds=seeds, by=arguments.search, level=level, limit=arguments.limit, progress=progress)
    seconds = time.perf_counter() - begin
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    print(
        f"{seen.runs:,} runs in {seconds:.1f} s: {seen.steps / seconds:,.0f} steps and "
        f"{seen.seconds / seconds:,.0f} simulated seconds a second"
    )
    for name, count in sorted(seen.reached.items(), key=lambda item: item[1]):
        print(f"  reached {name!r} in {count:,} of them")
    if seen.failure is None:
        print("no run failed" + (", and there are no others" if seen.is_exhausted else ""))
        return 0
    print(in_words(seen.failure, f"loopcore sim replay {arguments.program} {{token}}"))
    return 1


def _run_jobs(arguments: argparse.Namespace) -> int:
    """Split the seeds among processes; the first that finds a failure ends the others."""
    import subprocess

    share, rest = divmod(arguments.seeds, arguments.jobs)
    first = arguments.first
    running: list[subprocess.Popen[str]] = []
    for job in range(arguments.jobs):
        count = share + (job < rest)
        command = [
            sys.executable, "-m", "loopcore", "sim", "run", arguments.program, "--seeds", str(count),
            "--first", str(first), "--level", arguments.level, "--search", arguments.search,
            "--limit", str(arguments.limit),
        ]  # fmt: skip
        first += count
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    code = 0
    try:
        while running:
            for process in [*running]:
                if process.poll() is None:
                    continue
                running.remove(process)
                assert process.stdout is not None
                print(process.stdout.read(), end="")
                if process.returncode:
                    return process.returncode
                code = max(code, process.returncode)
            time.sleep(0.05)
    finally:
        for process in running:
            process.kill()
            process.wait()
    return code


def _replay(arguments: argparse.Namespace) -> int:
    import traceback

    from loopcore.sim.report.diagram import sequence_diagram
    from loopcore.sim.report.svg import sequence_svg
    from loopcore.sim.report.trace import write_trace
    from loopcore.sim.running import simulate
    from loopcore.sim.tape import Tape

    tape = Tape.from_token(arguments.token)
    outcome = simulate(load(arguments.program), tape, limit=arguments.limit)
    log = outcome.log
    if arguments.hosts is not None:
        wanted = {*arguments.hosts.split(",")}
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
