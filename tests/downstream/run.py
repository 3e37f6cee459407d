"""The suites of real projects on loopcore, asyncio and uvloop, next to each other in the same run.

    python tests/downstream/run.py --list
    python tests/downstream/run.py --project anyio --project httpx
    python tests/downstream/run.py --wheel dist/loopcore-*.whl --markdown docs/evidence/downstream.md

Each project is unpacked and installed from its PyPI sdist, in a virtual environment of its own (with the Python that
runs this), with loopcore from this checkout, compiled as LOOPCORE_COMPILE says, or from --wheel. With --work the
environments are kept and used again. With --json, results of other projects that the file holds already stay, and
--markdown writes a page of all of them; --report-only runs nothing, and writes the page.

The exit code is 1 if loopcore does not pass what asyncio passes (unless projects/NAME.toml expects it), if a suite hung
or could not be installed, or if a suite ran on another loop than it should.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.downstream.environments import ROOT, UVLOOP, Environment, SetupError, build_wheel
from tests.downstream.page import page, read_results, write_results
from tests.downstream.projects import Project, read_projects
from tests.downstream.results import LoopRun, ProjectRun, complaints, remarks
from tests.downstream.suites import run_suite

LOOPS = ("loopcore", "asyncio", "uvloop")


def main() -> int:
    options = _arguments()
    projects = read_projects(options.project)
    if options.list:
        print("\n".join(f"{project.name} {project.version}" for project in projects))
        return 0
    loops = options.loop.split(",")
    results = read_results(options.json) if options.json and options.json.exists() else {}
    found: list[str] = []
    if not options.report_only:
        with tempfile.TemporaryDirectory(prefix="downstream-") as temporary:
            work = (options.work or Path(temporary)).resolve()
            wheel = options.wheel.resolve() if options.wheel else build_wheel(work / "wheel")
            for project in projects:
                result, complained = _run_project(project, loops, work, wheel)
                results[project.name] = result
                found += complained
                if options.json:
                    write_results(options.json, results)
    if options.markdown:
        options.markdown.write_text(page(read_projects(), results), encoding="utf-8")
    print("\n".join(found))
    return 1 if found else 0


def _run_project(project: Project, loops: list[str], work: Path, wheel: Path) -> tuple[ProjectRun, list[str]]:
    """Run one project on all loops; return the results, and what is to be complained of."""
    environment = Environment(project, work / project.name)
    result = ProjectRun(project.name, {project.package: project.version})
    try:
        environment.prepare(wheel)
    except SetupError as error:
        result.problem = str(error)
        return result, [f"{project.name}: {error}"]
    result.versions = {
        "python": sys.version.split()[0],
        project.package: project.version,
        "loopcore": environment.version_of("loopcore"),
        "uvloop": UVLOOP.rpartition("==")[2],
        "build": environment.build(),
    }
    for loop in loops:
        run = run_suite(project, environment, loop, work / project.name / f"on-{loop}")
        result.runs[loop] = run
        print(_line(project, run), flush=True)
    print("".join(f"  remark: {each}\n" for each in remarks(project, result.runs)), end="")
    return result, complaints(project, result.runs)


def _line(project: Project, run: LoopRun) -> str:
    figures = ", ".join(f"{run.count(state)} {state}" for state in ("passed", "failed", "skipped"))
    remark = f" PROBLEM: {run.problem}" if run.problem else ""
    return (
        f"{project.name} {project.version} on {run.loop}: {figures}, {run.deselected} deselected, "
        f"loops {run.ran}, {run.seconds:.0f} s{remark}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The suites of real projects on loopcore, asyncio and uvloop")
    parser.add_argument("--project", action="append", default=[], metavar="NAME", help="default: all")
    parser.add_argument("--loop", default=",".join(LOOPS), help="default: %(default)s")
    parser.add_argument("--work", type=Path, help="keep environments, outputs and reports in this folder")
    parser.add_argument("--wheel", type=Path, help="loopcore's wheel; default: one is built from this checkout")
    parser.add_argument("--json", type=Path, help="keep the results in this file")
    parser.add_argument("--markdown", type=Path, help=f"write a page, such as {ROOT.name}/docs/evidence/downstream.md")
    parser.add_argument("--report-only", action="store_true", help="run nothing: write the page from --json")
    parser.add_argument("--list", action="store_true", help="print the projects")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
