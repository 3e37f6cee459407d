"""What the hook for PyInstaller lists, with stand-ins for PyInstaller's functions. tests/packaging runs PyInstaller."""

import pkgutil
import runpy
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import loopcore_backends
import loopcore_plugins
import loopcore_pyinstaller

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def collect_submodules(package: str, filter: Callable[[str], bool] = lambda name: True) -> list[str]:  # noqa: A002
    """Return all modules of a package that pass the filter, as PyInstaller's function does."""
    found = [package]
    for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
        if filter(module.name):
            found += collect_submodules(module.name, filter) if module.ispkg else [module.name]
    return found


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The variables of the hook, run as PyInstaller runs it."""
    hooks: Any = ModuleType("PyInstaller.utils.hooks")
    hooks.collect_submodules = collect_submodules
    hooks.copy_metadata = lambda distribution: [(f"{distribution}.dist-info", f"{distribution}.dist-info")]
    for name in ("PyInstaller", "PyInstaller.utils"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "PyInstaller.utils.hooks", hooks)
    (folder,) = loopcore_pyinstaller.hook_dirs()
    return runpy.run_path(str(Path(folder, "hook-loopcore.py")))


def test_the_entry_point_is_the_one_that_pyinstaller_reads() -> None:
    entry_points = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    module, _, function = entry_points["pyinstaller40"]["hook-dirs"].partition(":")
    assert getattr(import_module(module), function) is loopcore_pyinstaller.hook_dirs


def test_a_frozen_program_has_the_metadata_that_declare_backends_and_plugins(hook: dict[str, Any]) -> None:
    assert hook["datas"] == [("loopcore.dist-info", "loopcore.dist-info")]


def test_a_frozen_program_has_every_declared_backend_and_plugin(hook: dict[str, Any]) -> None:
    declared = {**loopcore_backends.DECLARED, **loopcore_plugins.DECLARED}
    assert {target.partition(":")[0] for target in declared.values()} <= set(hook["hiddenimports"])


def test_a_frozen_program_has_what_is_imported_on_first_use_or_by_compiled_modules(hook: dict[str, Any]) -> None:
    names = {"loopcore.files", "loopcore.sync", "loopcore.streams", "loopcore.kernel.task", "loopcore._native.sockets"}
    assert names <= set(hook["hiddenimports"])


def test_a_frozen_program_has_no_tests_and_no_command_line_unless_it_imports_them(hook: dict[str, Any]) -> None:
    left_out = ("loopcore.testing", "loopcore.sim.testing", "loopcore.cli")
    assert not [name for name in hook["hiddenimports"] if name.startswith(left_out)]
