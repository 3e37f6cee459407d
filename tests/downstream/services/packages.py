"""Servers from the system's packages: found, or, as root on a Debian, installed."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

PATIENCE = 600.0
"""Seconds for one apt-get command."""


class MissingServerError(Exception):
    """A server cannot be had here; the text says what to install, or to stop."""


def provide(program: str, package: str, folders: Iterable[Path] = ()) -> Path:
    """Return the path of `program`, looked for in `folders` and on PATH; install `package` if it is nowhere.

    A server that the package starts by itself is left alone: tests start their own. Raises MissingServerError.
    """
    search = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    found = shutil.which(program, path=search)
    if not found:
        _install(program, package)
        found = shutil.which(program, path=search)
    if not found:
        raise MissingServerError(f"the package {package} is installed, but {program} is not in {search}")
    return Path(found)


def _install(program: str, package: str) -> None:
    wanted = f"{program} is missing: install the package {package}"
    if not shutil.which("apt-get"):
        raise MissingServerError(f"{wanted} (its name on Debian)")
    if os.geteuid() != 0:
        raise MissingServerError(f"{wanted}, with `apt-get install {package}` as root")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        command = ["apt-get", "--quiet", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode:
            raise MissingServerError(f"{wanted}; {' '.join(command)} failed: {(done.stdout + done.stderr)[-2000:]}")
