"""What is in the sdist and in the wheels, with and without a compiler."""

import json
import re
import sys
import tarfile
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.packaging.conftest import call

pytestmark = pytest.mark.packaging

NO_COMPILER = {"CC": "/bin/false"}
SMOKE = """\
import asyncio, loopcore
async def main():
    task = asyncio.create_task(asyncio.sleep(0.001, "value"))
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b"" and await task == "value"
    writer.close()
    server.close()
loopcore.run(main())
"""

FROZEN = """\
import loopcore
async def main():
    print("ran")
loopcore.run(main(), backend="poll", plugins="watchdog")
"""


def hot_modules(names: list[str]) -> list[str]:
    headers = [name[:-4] for name in names if name.endswith(".pxd") and not re.search("/_native/|/templates/", name)]
    return [name for name in headers if f"{name}.py" in names]


def info_of(interpreter: Path, folder: Path) -> dict[str, object]:
    result = call(interpreter, "-m", "loopcore", "info", "--json", cwd=folder)
    assert result.returncode == 0, result.stderr
    facts: dict[str, object] = json.loads(result.stdout)["build"]
    return facts


def test_sdist_has_the_sources_and_nothing_else(sdist: Path):
    with tarfile.open(sdist) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames()]
    assert not [name for name in names if name.endswith((".so", ".pyc", "_build_info.json"))]
    assert not [name for name in names if name.startswith("core/loopcore/") and name.endswith(".c")]
    top = {name.split("/")[0] for name in names}
    assert top == {
        *(".ci", ".github", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "PKG-INFO", "README.md"),
        *("CODE_OF_CONDUCT.md", "SECURITY.md"),
        *("backends", "core", "docs", "examples", "plugins", "pyproject.toml", "tests", "tox.ini"),
    }
    assert {"core/build_ext.py", "core/loopcore/kernel/handle.pxd", "core/loopcore/py.typed"} <= set(names)


def test_wheel_is_compiled_and_runs(build_wheel, interpreter: Path, tmp_path: Path):
    wheel, _ = build_wheel()
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{version}-{version}-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    extensions = {name.split(".")[0] for name in names if name.endswith(".so")}
    assert extensions
    assert extensions == {*hot_modules(names), "loopcore/_cyutility"}
    assert not [name for name in names if name.endswith((".c", ".txt")) and "dist-info" not in name]
    assert call(interpreter, "-m", "pip", "install", "-q", wheel, cwd=tmp_path).returncode == 0
    facts = info_of(interpreter, tmp_path)
    assert facts["compiled"]
    assert facts["stale"] == []
    smoke = call(interpreter, "-W", "error", "-c", SMOKE, cwd=tmp_path)
    assert (smoke.returncode, smoke.stderr) == (0, "")


def test_a_third_partys_observer_is_compiled_against_the_wheel(build_wheel, tmp_path: Path):
    wheel, _ = build_wheel()
    site, plugin = tmp_path / "site", tmp_path / "loopcore-plugin-mine"
    install = ("-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", site)
    loaded = "import loopcore_plugin_mine.durations as durations; print(durations.__file__)"
    said = ""
    for command in [
        (*install, wheel),
        ("-m", "loopcore", "new", "plugin", "mine"),
        (*install, plugin),
        ("-m", "pytest", "-q", "-p", "no:asyncio", plugin / "tests"),
        ("-c", loaded),
    ]:
        result = call(sys.executable, *command, cwd=tmp_path, PYTHONPATH=str(site))
        said = result.stdout + result.stderr
        assert result.returncode == 0, said
    assert said.strip().endswith(tuple(EXTENSION_SUFFIXES))


def test_without_a_compiler_the_wheel_is_pure_and_says_why(build_wheel, interpreter: Path, tmp_path: Path):
    wheel, said = build_wheel(**NO_COMPILER)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "without compiled modules: could not be compiled: /bin/false" in said
    assert call(interpreter, "-m", "pip", "install", "-q", wheel, cwd=tmp_path).returncode == 0
    facts = info_of(interpreter, tmp_path)
    assert not facts["compiled"]
    assert str(facts["reason"]).startswith("could not be compiled: /bin/false")
    smoke = call(interpreter, "-W", "error", "-c", SMOKE, cwd=tmp_path)
    assert (smoke.returncode, smoke.stderr) == (0, "")


def test_pure_wheel_can_be_asked_for(build_wheel):
    wheel, _ = build_wheel(LOOPCORE_COMPILE="no")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        notes = json.loads(archive.read("loopcore/_build_info.json"))
    assert notes["reason"] == "LOOPCORE_COMPILE=no"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"LOOPCORE_COMPILE": "require", **NO_COMPILER}, "LOOPCORE_COMPILE=require, but loopcore cannot be compiled"),
        ({"LOOPCORE_COMPILE": "maybe"}, "LOOPCORE_COMPILE='maybe' is not one of auto, no, require"),
    ],
)
def test_build_that_must_fail_says_why(sdist: Path, tmp_path: Path, environment: dict[str, str], words: str):
    options = ("--no-cache-dir", "--no-deps", "--no-build-isolation", "-w", tmp_path)
    result = call(sys.executable, "-m", "pip", "wheel", *options, sdist, cwd=tmp_path, **environment)
    assert result.returncode != 0
    assert words in result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr


def test_editable_install_compiles_only_on_request(checkout: Path, interpreter: Path, tmp_path: Path):
    install = (interpreter, "-m", "pip", "install", "-q", "-e", checkout)
    kernel = checkout / "core" / "loopcore" / "kernel"
    written = set(checkout.rglob("*.c"))  # by hand

    assert call(*install, cwd=tmp_path).returncode == 0
    assert not list(checkout.rglob("*.so"))
    assert "editable" in str(info_of(interpreter, tmp_path)["reason"])

    assert call(*install, cwd=tmp_path, LOOPCORE_COMPILE="require").returncode == 0
    assert list(kernel.glob("handle.*.so"))
    assert set(checkout.rglob("*.c")) == written
    assert info_of(interpreter, tmp_path)["compiled"]
    source = kernel / "handle.py"
    original = source.read_text()
    source.write_text(original + "\n# edited\n")
    assert info_of(interpreter, tmp_path)["stale"] == ["loopcore.kernel.handle"]
    source.write_text(original)

    assert call(*install, cwd=tmp_path).returncode == 0
    assert not list(checkout.rglob("*.so"))
    assert not info_of(interpreter, tmp_path)["compiled"]


@pytest.mark.parametrize("environment", [{}, {"LOOPCORE_COMPILE": "no"}], ids=["compiled", "pure"])
def test_frozen_program_has_its_backends_and_plugins(
    build_wheel, interpreter: Path, tmp_path: Path, environment: dict[str, str]
):
    wheel, _ = build_wheel(**environment)
    assert call(interpreter, "-m", "pip", "install", "-q", wheel, "pyinstaller", cwd=tmp_path).returncode == 0
    (tmp_path / "program.py").write_text(FROZEN, encoding="utf-8")
    command = (interpreter, "-m", "PyInstaller", "--onefile", "program.py")
    frozen = call(*command, cwd=tmp_path, PYINSTALLER_CONFIG_DIR=str(tmp_path / "cache"))
    if frozen.returncode and "Python shared library" in frozen.stderr.splitlines()[-1]:
        pytest.skip("PyInstaller needs Python's shared library: this Python was installed without")
    assert frozen.returncode == 0, frozen.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    ran = call(tmp_path / "dist" / "program", cwd=empty)
    assert (ran.returncode, ran.stdout) == (0, "ran\n"), ran.stderr
