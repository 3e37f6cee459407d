"""The C programs of the harness, compiled on the fly into a temporary directory.

Nothing is left in the repository. A compiler is required for the network rows; without one they are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_SOURCES = Path(__file__).parent


class NoCompilerError(Exception):
    """There is no C compiler, or it refused the source; the text says which."""


def compile_program(name: str, into: Path) -> Path:
    """Compile `name`.c with $CC or cc into the directory; returns the program. Raises NoCompilerError."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompilerError("no C compiler (cc, gcc or $CC); the network rows need one")
    program = into / name
    command = [*compiler.split(), "-O2", "-Wall", "-Wextra", "-o", str(program), str(_SOURCES / f"{name}.c")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise NoCompilerError(f"{name}.c does not compile: {result.stderr.strip()[:500]}")
    return program
