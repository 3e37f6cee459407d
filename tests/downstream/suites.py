"""Running a project's suite on one loop, in a folder of its own, with a hard limit of time."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.downstream.environments import ROOT, Environment
from tests.downstream.projects import Project, expression
from tests.downstream.results import LoopRun, read_junit

HERE = Path(__file__).parent
INJECT = HERE / "inject"
FAREWELL = 20.0
"""Seconds for a command that took too long to say how far it came."""
REPORT_OPTIONS = ("-p", "loop_plugin", "-o", "junit_family=xunit2", "-o", "junit_logging=no")


def run_suite(project: Project, environment: Environment, loop: str, folder: Path) -> LoopRun:
    """Run the project's command on `loop`, in `folder`, which is emptied before and kept.

    It holds afterwards: `run/` (the project's files), output.txt, junit.xml, loops.txt.
    """
    shutil.rmtree(folder, ignore_errors=True)
    place = folder / "run"
    place.mkdir(parents=True)
    for name in project.files:
        _copy(environment.source / name, place / name)
    for name in project.programs:
        _copy(HERE / "programs" / name, place / name)
    report = folder / "junit.xml"
    command = [str(environment.python) if word == "python" else word.format(root=ROOT) for word in project.command]
    command += [*REPORT_OPTIONS, f"--junitxml={report}"]
    run = LoopRun(loop)
    started = time.monotonic()
    with ExitStack() as servers:
        variables = _variables(project, environment, loop, folder)
        for service in project.services:
            module = importlib.import_module(f"tests.downstream.services.{service}")
            variables |= servers.enter_context(module.running(folder / service))
        exit_code = _run(command, place, variables, folder / "output.txt", project.patience)
    run.seconds = time.monotonic() - started
    _collect(run, folder, exit_code)
    return run


def _collect(run: LoopRun, folder: Path, exit_code: int | None) -> None:
    """Read what the run has left in `folder`."""
    record, deselected = folder / "loops.txt", folder / "deselected.json"
    if record.exists():
        run.ran = dict(Counter(line.split()[0] for line in record.read_text(encoding="ascii").splitlines()))
    if deselected.exists():
        run.deselected = len(json.loads(deselected.read_text(encoding="utf-8")))
    try:
        run.outcomes = read_junit(folder / "junit.xml")
    except (OSError, ET.ParseError) as error:
        run.problem = f"no report, exit code {exit_code}: {error!r}"
    if exit_code is None:
        run.problem = "not done in time, killed"
    elif exit_code not in (0, 1) and not run.problem:
        run.problem = f"exit code {exit_code}"
    if not run.ran.get(run.loop):
        run.problem = f"no loop of {run.loop} ran, but {run.ran}; {run.problem}"


def _variables(project: Project, environment: Environment, loop: str, folder: Path) -> dict[str, str]:
    """Return this process's environment without what would change what is tested, and with what is to be tested."""
    prefixes = ("LOOPCORE_", "PYTEST_", "PYTHON", "DOWNSTREAM_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    asked = {name: os.environ[name] for name in ("LOOPCORE_BACKEND", "LOOPCORE_TASKS") if name in os.environ}
    patterns = [expression(pattern) for entry in project.deselect for pattern in entry.tests]
    return {
        **kept,
        **asked,
        "PATH": f"{environment.python.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "VIRTUAL_ENV": str(environment.python.parents[1]),
        "PYTHONPATH": str(INJECT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DOWNSTREAM_LOOP": loop,
        "DOWNSTREAM_RECORD": str(folder / "loops.txt"),
        "DOWNSTREAM_DESELECT": json.dumps(patterns),
        **project.environment,
    }


def _run(command: list[str], place: Path, variables: Mapping[str, str], output: Path, patience: float) -> int | None:
    """Run the command to its end; return its exit code, None if it had to be killed."""
    with output.open("wb") as sink:
        # A session of its own: what it leaves behind is killed with it.
        child = subprocess.Popen(
            command, cwd=place, env=dict(variables), stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            return child.wait(patience)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)  # pytest ends with a report of what it has done
            try:
                child.wait(FAREWELL)
            except subprocess.TimeoutExpired:
                pass
            return None
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
