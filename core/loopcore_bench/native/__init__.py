"""The C programs of the harness, compiled on the fly into a temporary directory.

Nothing is left in the repository. A compiler is required for the network rows; without one they are skipped. OpenSSL's
headers are required for the TLS rows alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_SOURCES = Path(__file__).parent
_OPENSSL = ("-lssl", "-lcrypto")


class NoCompilerError(Exception):
    """There is no C compiler, or it refused the source; the text says which."""


@dataclass(frozen=True, slots=True)
class Programs:
    """What was compiled. `no_tls` is the reason why the load generator speaks no TLS, or None.

    `interpreted` is the reason why it is a Python program, which knows plain echoes alone, or None.
    """

    load: Path
    floor: Path
    no_tls: str | None
    interpreted: str | None = None

    def load_command(self) -> list[str]:
        """What runs the load generator."""
        if self.interpreted is None:
            return [str(self.load)]
        return [sys.executable, str(_SOURCES.parent / "start.py"), "pyload"]


def interpreted_programs(reason: str) -> Programs:
    """The load generator in Python in the place of that in C, and no floor; `reason` says why."""
    return Programs(Path(), Path(), reason, reason)


def compile_programs(into: Path) -> Programs:
    """Compile the load generator, with TLS where that can be had, and the floor. Raises NoCompilerError."""
    floor = compile_program("floor", into)
    try:
        load, no_tls = compile_program("load", into, "channel", flags=("-DWITH_TLS",), libraries=_OPENSSL), None
    except NoCompilerError as error:
        load = compile_program("load", into, "channel")
        no_tls = f"the load generator does not compile with OpenSSL (are its headers installed?): {error}"
    return Programs(load, floor, no_tls)


def compile_program(
    name: str, into: Path, *others: str, flags: tuple[str, ...] = (), libraries: tuple[str, ...] = ()
) -> Path:
    """Compile `name`.c and others with $CC or cc into the directory; returns the program. Raises NoCompilerError."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompilerError("no C compiler (cc, gcc or $CC); the network rows need one")
    program = into / name
    sources = [str(_SOURCES / f"{source}.c") for source in (name, *others)]
    command = [*compiler.split(), "-O2", "-Wall", "-Wextra", *flags, "-o", str(program), *sources, *libraries]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise NoCompilerError(f"{name}.c does not compile: {result.stderr.strip()[:500] or 'the compiler failed'}")
    return program
