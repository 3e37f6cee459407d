"""A Windows CPython under Wine: how its folder is made, and how it is started.

The folder holds, beside each other:

    python/         python.exe (launcher.c, built by mingw-w64), the DLLs and extension modules of the pinned wheel
    python/Lib      the standard library of the running CPython, which is of the same minor version
    prefix/         Wine's own state (WINEPREFIX), some 0.7 GB
    bin/python      a shell script that starts the above as if it were a Python of this system

Wine serves the whole file system as drive Z:, so an absolute path means the same on both sides as long as the current
folder is on Z:. Standard output and error must be pipes: with files there, CPython dies in init_sys_streams. Hence
the script's `| cat`.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TOOLS = "x86_64-w64-mingw32-"
COMPILER = TOOLS + "gcc"
NEEDED = {"wine": "wine wine64", COMPILER: "gcc-mingw-w64-x86-64-win32"}
"""Programs, and the Debian packages they come in."""

SCRIPT = """#!/bin/bash
# Runs Windows CPython under Wine; see tests/windows/environment.py.
set -o pipefail
export WINEPREFIX='{prefix}' WINEDEBUG=-all
# The console's code page is not ours.
export PYTHONUTF8=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='{path}'
wine '{python}' "$@" </dev/null 2>&1 | cat
"""


class Unavailable(Exception):
    """Something that must be installed first, and how."""


def check_programs() -> None:
    """Raise Unavailable unless Wine and the compiler are installed."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        raise Unavailable(
            f"{' and '.join(missing)} not found; on Debian: "
            f"apt-get install --no-install-recommends {' '.join(NEEDED.values())}"
        )
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)):
        raise Unavailable(f"packages.txt pins wheels for CPython 3.11 to 3.13, and this is {sys.version.split()[0]}")


class Windows:
    """One folder with a Windows CPython of this Python's minor version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.home = self.folder / "python"
        self.script = self.folder / "bin" / "python"
        self._packages = self.home / "Lib" / "site-packages"

    def make(self) -> None:
        """Make what is not there yet. Raises Unavailable, or CalledProcessError of the step that failed."""
        check_programs()
        done = self.folder / "done"
        if not done.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.home.mkdir(parents=True)
            self._unpack_interpreter()
            self._copy_library()
            self._build_launcher()
            self._build_stable_interface()
            _pip("install", "--target", str(self._packages), "--require-hashes", "-r", str(HERE / "packages.txt"))
            subprocess.run(["wineboot", "--init"], env=self._wine_environment(), check=True, capture_output=True)
            done.touch()
        self._write_script()
        self._install_loopcore()

    def run(self, arguments: list[str], patience: float) -> int | None:
        """Run python.exe in the repository's root, with what it prints as it comes; None if it had to be killed."""
        child = subprocess.Popen([str(self.script), *arguments], cwd=ROOT, start_new_session=True)
        try:
            return child.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.stop()
            child.wait()

    def stop(self) -> None:
        """End every Windows process of this folder's prefix, those that tests left behind included."""
        subprocess.run(["wineserver", "-k"], env=self._wine_environment(), check=False, capture_output=True)

    def _unpack_interpreter(self) -> None:
        wheels = self.folder / "wheels"
        _pip("download", "--dest", str(wheels), "--require-hashes", "-r", str(HERE / "interpreter.txt"))
        (wheel,) = wheels.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if member.filename.startswith("deploy_libs/"):
                    (self.home / Path(member.filename).name).write_bytes(archive.read(member))

    def _copy_library(self) -> None:
        # Extension modules are Linux's, and so is what lies in site-packages.
        left_out = shutil.ignore_patterns("lib-dynload", "site-packages", "__pycache__", "idlelib", "config-*")
        shutil.copytree(sysconfig.get_path("stdlib"), self.home / "Lib", ignore=left_out)

    def _build_launcher(self) -> None:
        dll = f'L"python{sys.version_info.major}{sys.version_info.minor}.dll"'
        command = [COMPILER, "-O2", "-municode", f"-DPYTHON_DLL={dll}", str(HERE / "launcher.c")]
        subprocess.run([*command, "-o", str(self.home / "python.exe")], check=True)
        random = [COMPILER, "-O2", "-shared", str(HERE / "bcryptprimitives.c"), "-ladvapi32"]
        subprocess.run([*random, "-o", str(self.home / "bcryptprimitives.dll")], check=True)

    def _build_stable_interface(self) -> None:
        """Make python3.dll, which wheels of the stable interface (cryptography's) are linked to: it only forwards."""
        dll = f"python{sys.version_info.major}{sys.version_info.minor}"
        listing = subprocess.run(
            [TOOLS + "objdump", "-p", str(self.home / f"{dll}.dll")], check=True, capture_output=True, text=True
        ).stdout
        names = re.findall(r"^\t\[ *\d+\] (?:\+base\[ *\d+\] +\w+ )?(\w+)$", listing, re.MULTILINE)
        exports = self.folder / "python3.def"
        exports.write_text("EXPORTS\n" + "".join(f"{name} = {dll}.{name}\n" for name in names))
        command = [COMPILER, "-shared", "-nostdlib", "-Wl,--entry=0", str(exports)]
        subprocess.run([*command, "-o", str(self.home / "python3.dll")], check=True)

    def _install_loopcore(self) -> None:
        """Install the pure build: its entry points are needed, and its files are superseded by the checkout's."""
        for old in self._packages.glob("loopcore*"):
            shutil.rmtree(old)
        environment = {**os.environ, "LOOPCORE_COMPILE": "no"}
        _pip("install", "--target", str(self._packages), "--no-build-isolation", str(ROOT), environment=environment)

    def _write_script(self) -> None:
        sources = ";".join("Z:" + str(ROOT / name).replace("/", "\\") for name in ("core", "backends", "plugins"))
        self.script.parent.mkdir(exist_ok=True)
        self.script.write_text(
            SCRIPT.format(prefix=self.folder / "prefix", python=self.home / "python.exe", path=sources)
        )
        self.script.chmod(0o755)

    def _wine_environment(self) -> dict[str, str]:
        return {**os.environ, "WINEPREFIX": str(self.folder / "prefix"), "WINEDEBUG": "-all"}


def _pip(command: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
    """Run pip for win_amd64 and this Python's minor version, without dependencies: they are listed."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--platform", "win_amd64", "--python-version", here]
    if command == "install" and environment is not None:
        options = ["--quiet", "--no-deps", "--upgrade"]
    subprocess.run([sys.executable, "-m", "pip", command, *options, *arguments], check=True, env=environment)
