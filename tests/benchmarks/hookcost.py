"""What hooks, counters, meter and policies cost when nobody uses them, in instructions.

    python tests/benchmarks/hookcost.py [--count 20000] [--limit 0.01] [--work call_soon,sleep0,...]

Builds loopcore twice, compiled, into two fresh virtual environments: once without all that, once as it is. CUTS is the
difference, so that it can be read; a cut that is no longer found in the source is an error, not a quiet pass. Then
instructions.py compares the two and exits with 1 when the second needs more than 1 % more. Needs pip, a C compiler and
valgrind; takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import instructions

REPOSITORY = Path(__file__).resolve().parents[2]
_PARTS = ("core", "backends", "plugins", "pyproject.toml", "README.md", "LICENSE")
_KERNEL = "core/loopcore/kernel/"
_ANY = "core/loopcore/**/"

CUTS: tuple[tuple[str, str, str], ...] = (
    # The tick: no test whether somebody looks on.
    (_KERNEL + "reactor.py", r"if self\._tick_observed or self\._has_phase", "if self._has_phase"),
    (_KERNEL + "reactor.py", r"if self\._poll_observed:", "if False:"),
    (_KERNEL + "dispatch.py", r"if dispatcher\._tick_observed:", "if False:"),
    (_ANY + "*.py", r"if self\._sampler is not None:", "if False:"),
    # A callback: only debug mode is left in the test.
    (_KERNEL + "dispatch.py", r"if self\._observed:", "if self._slow_path_flags & _DEBUG:"),
    (_KERNEL + "queues.py", r"if self\.watching:", "if False:"),
    (_KERNEL + "queues.py", r"if not self\._window_is_open:", "if True:"),
    # Tasks and transports: no announcements.
    (_ANY + "*.py", r"if self\._reactor\.watching:", "if False:"),
    (_ANY + "*.py", r"if self\._loop\.watching_transports:", "if False:"),
    # Nothing is counted.
    (
        _KERNEL + "task.py",
        r"""            if self\._status == _CANCELLED:
(?: +.*\n){5}(?= +if )""",
        "",
    ),
    (_KERNEL + "queues.py", r"self\.stats\.\w+ \+= (self\.inbox\.drain_into\(.*)", r"\1"),  # it does more than count
    (_ANY + "*.py", r"[\w.]+\.stats\.\w+ (\+=|= [\w.]+ \+) .*", "pass"),
    (_ANY + "*.py", r"self\.scheduler\.bytes_(received|sent) \+= .*", "pass"),
    (
        _KERNEL + "ready.py",
        r"self\._limit:\n +self\._prepare_for\(runnable\)",
        "self._mask:\n            self._grow()",
    ),
)


class CutError(Exception):
    """The source has changed so that a cut does not apply any more."""


def apply_cuts(tree: Path) -> None:
    """Take the machinery out of a copy of the source. Raises CutError for a pattern that matches nothing."""
    for files, pattern, replacement in CUTS:
        found = 0
        for path in tree.glob(files):
            text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"))
            path.write_text(text, encoding="utf-8")
            found += count
        if not found:
            raise CutError(f"nothing in {files} matches {pattern!r} any more; bring CUTS in hookcost.py up to date")


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
    with tempfile.TemporaryDirectory(prefix="loopcore-hooks-") as scratch:
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
