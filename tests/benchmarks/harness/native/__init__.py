"""The C programs of the harness, compiled on the fly into a temporary directory.

Nothing is left in the repository. A compiler is required for the network rows; without one they are skipped. OpenSSL's
headers are required for the TLS rows alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SOURCES = Path(__file__).parent
_OPENSSL = ("-lssl", "-lcrypto")


class NoCompilerError(Exception):
    """There is no C compiler, or it refused the source; the text says which."""


@dataclass(frozen=True, slots=True)
class Programs:
    """What was compiled. `no_tls` is the reason why the load generator speaks no TLS, or None."""

    load: Path
    floor: Path
    no_tls: str | None


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
    _compile(f"{name}.c", into / name, [_SOURCES / f"{source}.c" for source in (name, *others)], flags, libraries)
    return into / name


def _compile(what: str, output: Path, sources: list[Path], flags: tuple[str, ...], libraries: tuple[str, ...]) -> None:
    compiler = os.environ.get("CC", "").strip() or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompilerError("no C compiler (cc, gcc or $CC); the network rows need one")
    command = [*compiler.split(), "-O2", "-Wall", "-Wextra", *flags, "-o", str(output), *map(str, sources), *libraries]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoCompilerError(f"{what} does not compile: {error}; set CC to a C compiler, or unset it") from None
    if result.returncode:
        raise NoCompilerError(f"{what} does not compile: {result.stderr.strip()[:500] or 'the compiler failed'}")
