"""Archives for the packaging tests: built once a session, each with pip, as a user would."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def call(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command outside of this process's Python settings, and return what it said.

    A folder of compiled modules may be kept between builds: the build hook knows whether the sources are the same.
    """
    settings = {
        name: value
        for name, value in os.environ.items()
        if name == "LOOPCORE_BUILD_CACHE" or not name.startswith(("LOOPCORE_", "PYTHON"))
    }
    return subprocess.run(
        [str(word) for word in command],
        check=False,
        cwd=cwd,
        env=settings | environment,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files, so that what a build leaves behind shows, and nothing else is swept up.

    In an unpacked sdist, which has nothing else, it is a copy of all files.
    """
    folder = tmp_path_factory.mktemp("checkout")
    if not (ROOT / ".git").exists():
        left_out = shutil.ignore_patterns("__pycache__", ".venv*", ".tox", "*.so", "*.pyd")
        return shutil.copytree(ROOT, folder, ignore=left_out, dirs_exist_ok=True)
    for name in subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    result = call(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=checkout)
    assert result.returncode == 0, result.stderr
    (archive,) = folder.iterdir()
    return archive


BuildWheel = Callable[..., tuple[Path, str]]


@pytest.fixture(scope="session")
def build_wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> BuildWheel:
    """Build a wheel from the sdist, and return it with what pip said."""
    built: dict[tuple[str, ...], tuple[Path, str]] = {}

    def build(**environment: str) -> tuple[Path, str]:
        key = tuple(map(str, sorted(environment.items())))
        if key not in built:
            folder = tmp_path_factory.mktemp("wheel")
            # Without the cache: pip takes one sdist for one wheel, whatever the environment says.
            command = (sys.executable, "-m", "pip", "wheel", "-v", "--no-cache-dir", "--no-deps", "-w", folder, sdist)
            # It needs no environment made for it, where the hook's answer is the subject.
            isolation = ("--no-build-isolation",) if environment else ()
            result = call(*command, *isolation, cwd=folder, **environment)
            assert result.returncode == 0, result.stdout + result.stderr
            (wheel,) = folder.glob("*.whl")
            built[key] = (wheel, result.stdout + result.stderr)
        return built[key]

    return build


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """The interpreter of a virtual environment with nothing but pip in it."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"
