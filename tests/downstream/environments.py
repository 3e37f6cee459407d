"""Virtual environments: a fresh one for each project, with the project from its sdist, loopcore, and uvloop."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.downstream.projects import Project

ROOT = Path(__file__).resolve().parents[2]
UVLOOP = "uvloop==0.23.0"
"""What loopcore is compared with; pinned, so that a difference between two tables is loopcore's."""
COMMON = ("pytest", "pytest-timeout", UVLOOP)
INSTALL_PATIENCE = 900.0
"""Seconds for one pip command: some projects compile."""


class SetupError(Exception):
    """A project could not be fetched or installed; the text is the end of what pip said."""


def build_wheel(folder: Path) -> Path:
    """Build loopcore's wheel from this checkout, as LOOPCORE_COMPILE says (default: auto); return its path."""
    shutil.rmtree(folder, ignore_errors=True)
    _pip(Path(sys.executable), "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("loopcore-*.whl")
    return wheel


class Environment:
    """A folder with everything of one project: `sdist/`, `source/`, `venv/`."""

    def __init__(self, project: Project, folder: Path) -> None:
        self._project = project
        self._folder = folder
        self.source = folder / "source"
        self.python = folder / "venv" / "bin" / "python"

    def prepare(self, wheel: Path) -> None:
        """Fetch, unpack and install. What an earlier call has installed is kept if the project's file says the same.

        loopcore itself is always installed anew, from `wheel`. Raises SetupError.
        """
        project = self._project
        wanted = json.dumps([project.package, project.version, project.extras, project.requirements, COMMON])
        stamp = self._folder / "installed.json"
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
            shutil.rmtree(self._folder, ignore_errors=True)
            sdist = self._fetch()
            subprocess.run([sys.executable, "-m", "venv", str(self.python.parents[1])], check=True)
            extras = f"[{','.join(project.extras)}]" if project.extras else ""
            itself = f"{project.package}{extras} @ {sdist.as_uri()}"
            _pip(self.python, "install", itself, *project.requirements, *COMMON, str(wheel))
            stamp.write_text(wanted, encoding="utf-8")
        _pip(self.python, "install", "--force-reinstall", "--no-deps", str(wheel))

    def version_of(self, package: str) -> str:
        """Return the version of an installed distribution."""
        program = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
        return self._ask(program, package)

    def build(self) -> str:
        """Return how loopcore is installed here: "compiled" or "pure"."""
        return self._ask("from loopcore.kernel import scheduler as s; print(s.__file__.endswith('.py'))",
                         answers={"True": "pure", "False": "compiled"})  # fmt: skip

    def _ask(self, program: str, *arguments: str, answers: dict[str, str] | None = None) -> str:
        command = [str(self.python), "-c", program, *arguments]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        return said if answers is None else answers[said]

    def _fetch(self) -> Path:
        """Download the sdist, unpack it as `source`, return the archive."""
        folder = self._folder / "sdist"
        folder.mkdir(parents=True)
        name = self._project.package
        wanted = f"{name}=={self._project.version}"
        _pip(Path(sys.executable), "download", "--no-binary", name, "--no-deps", "--dest", str(folder), wanted)
        (sdist,) = folder.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
        unpacked.rename(self.source)
        return sdist


def _pip(python: Path, *arguments: str) -> None:
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [str(python), "-m", "pip", arguments[0], "--quiet", *arguments[1:]]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=INSTALL_PATIENCE, check=False
    )
    if done.returncode:
        raise SetupError(f"pip {arguments[0]} failed: {(done.stdout + done.stderr)[-2000:]}")
