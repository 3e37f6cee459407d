"""What the hook machinery costs when no plugin is registered, in instructions.

    python tests/benchmarks/hookcost.py [--count 20000] [--limit 0.01] [--work call_soon,sleep0,...]

Builds loopcore twice, compiled, into two fresh virtual environments: once without the hooks of the tick and of
handles and tasks, once as it is. CUTS is the difference, text for text, so that it can be read; a cut that is no
longer found in the source is an error, not a quiet pass. Then instructions.py compares the two and exits with 1 when
the second needs more than 1 % more. Needs pip, a C compiler and valgrind; takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import instructions

REPOSITORY = Path(__file__).resolve().parents[2]
_PARTS = ("core", "backends", "plugins", "pyproject.toml", "README.md", "LICENSE")
_KERNEL = "core/loopcore/kernel"

_REACTOR = f"{_KERNEL}/reactor.py"
_TICKS = "self._attention & _WATCHING_TICKS"

CUTS: tuple[tuple[str, str, str], ...] = (
    # The tick: no test whether somebody watches it.
    (_REACTOR, f"if self._has_phase_callbacks or {_TICKS}:", "if self._has_phase_callbacks:"),
    (_REACTOR, f"if {_TICKS}:", "if False:"),
    (_REACTOR, f"watched = {_TICKS} and phase != phases.CHECK", "watched = False"),
    # A callback: only debug mode is left in the test.
    (_REACTOR, "if self._attention & (_DEBUG | _WATCHING_HANDLES):", "if self._attention & _DEBUG:"),
    (f"{_KERNEL}/queues.py", "        if self.watching:\n", "        if False:\n"),
    # A task: no announcement at its end. Its steps are announced where watched callbacks are run.
    (
        f"{_KERNEL}/task.py",
        """        if self._reactor is not None and self._reactor.watching:
            self._announce("loopcore_task_done")
""",
        "",
    ),
)


class CutError(Exception):
    """The source has changed so that a cut does not apply any more."""


def apply_cuts(tree: Path) -> None:
    """Take the hook machinery out of a copy of the source. Raises CutError for a text that is not there."""
    for path, old, new in CUTS:
        text = (tree / path).read_text(encoding="utf-8")
        if old not in text:
            raise CutError(f"{path} no longer contains {old.strip()!r}; bring CUTS in hookcost.py up to date")
        (tree / path).write_text(text.replace(old, new), encoding="utf-8")


def copy_source(into: Path) -> Path:
    """Copy what a wheel is built from."""
    into.mkdir()
    for part in _PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, into / part, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.c"))
        else:
            shutil.copy(source, into / part)
    return into


def build(tree: Path, environment: Path) -> Path:
    """Install a tree, compiled, into a fresh virtual environment; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(tree)]
    subprocess.run(command, check=True, env={**os.environ, "LOOPCORE_COMPILE": "require"})
    return python


def main(argv: list[str] | None = None) -> int:
    """Entry point; the exit status is that of instructions.py."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", default="20000")
    parser.add_argument("--limit", default="0.01")
    parser.add_argument("--work", default="call_soon,call_soon_burst,sleep0,pingpong,spawn,timer_cancel,pair_echo")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="loopbench-hooks-") as scratch:
        root = Path(scratch)  # directories of equal length: paths are allocated too, and counted
        try:
            without = copy_source(root / "bare-source")
            apply_cuts(without)
        except CutError as error:
            print(error, file=sys.stderr)
            return 2
        bare = build(without, root / "bare")
        full = build(copy_source(root / "full-source"), root / "full")
        loops = f"cut-out=loopcore@{bare},as-it-is=loopcore@{full}"
        command = ["--loops", loops, "--work", options.work, "--count", options.count, "--limit", options.limit]
        return instructions.main(command)


if __name__ == "__main__":
    sys.exit(main())
