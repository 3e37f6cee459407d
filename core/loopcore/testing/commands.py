"""The commands `loopcore conformance`, which proves a backend, and `loopcore new`, which starts one."""

import argparse
import os
from pathlib import Path
from typing import Final

from loopcore.cli.parsing import set_completer
from loopcore.cli.program import set_path
from loopcore.selection.discovery import BACKENDS

GROUP: Final = "Measure and extend"
"""The heading of these commands in `loopcore --help`."""

STEPS: Final = {
    "backend": ('python -m pip install -e ".[test]"', "python -m pytest"),
    "plugin": (
        'python -m pip install "setuptools>=77" "cython>=3.1"',
        'python -m pip install --no-build-isolation -e ".[test]"',  # compiled for the loopcore that is installed
        "python -m pytest",
    ),
}
"""What to do with a new distribution, as commands."""


def conformance(parser: argparse.ArgumentParser) -> None:
    """Prove a backend: run the whole contract of the port on it.

    The exit code is 0 if every guarantee is kept, 1 if one is broken, 2 if nothing could be run. Needs pytest, and
    hypothesis for a part: pip install "loopcore[testing]".
    """
    backend = parser.add_argument("backend", metavar="NAME", help="the backend, as installed; or MODULE:CLASS")
    set_completer(backend, BACKENDS.names)
    parser.add_argument("--only", metavar="NAMES", help="check these guarantees only, separated by commas")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the report here, as JSON")
    parser.add_argument("--badge", metavar="FILE", type=Path, help="write a badge here, as SVG")
    parser.set_defaults(act=act, group=GROUP)


def act(arguments: argparse.Namespace) -> int:
    """Run the command. pytest is imported only now."""
    from loopcore.errors import UsageError

    if ":" in arguments.backend:
        set_path(os.getcwd())  # as `loopcore run` does
    else:
        BACKENDS.check_known(arguments.backend)
    try:
        from loopcore.testing.runner import prove
    except ModuleNotFoundError as exc:
        if exc.name != "pytest":
            raise
        raise UsageError('loopcore conformance needs pytest: pip install "loopcore[testing]"') from None
    only = [name.strip() for name in (arguments.only or "").split(",") if name.strip()]
    return prove(arguments.backend, only, arguments.json, arguments.badge)


def new(parser: argparse.ArgumentParser) -> None:
    """Write a new distribution with a backend or a plugin, which passes its tests at once.

    It is a folder, `loopcore-backend-NAME` or `loopcore-plugin-NAME`, with sources, tests, settings and a workflow.
    """
    parser.add_argument("kind", choices=("backend", "plugin"), metavar="backend|plugin", help="what to write")
    parser.add_argument("name", metavar="NAME", help="the name that users will select it by")
    parser.add_argument(
        "--into", metavar="FOLDER", type=Path, default=Path(), help="an existing folder (default: here)"
    )
    parser.set_defaults(act=write, group=GROUP)


def write(arguments: argparse.Namespace) -> int:
    """Write the copy, and print what to do next."""
    from loopcore.testing.scaffold import write_copy

    folder = write_copy(arguments.kind, arguments.name, arguments.into)
    print(f"Created {folder}. Next:\n\n    cd {folder}")
    for step in STEPS[arguments.kind]:
        print(f"    {step}")
    return 0
