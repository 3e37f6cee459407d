"""A traceback shows the source lines of compiled modules."""

import linecache
import traceback
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import loopcore
from loopcore.tracebacks import show_sources


def test_a_traceback_through_the_kernel_shows_its_lines() -> None:
    loop: Any = loopcore.new_event_loop()
    try:
        loop.call_later(None, print)
    except TypeError:
        shown = traceback.format_exc()
    finally:
        loop.close()
    assert "kernel/scheduler.py" in shown.replace("\\", "/")
    assert 'raise TypeError("delay must not be None")' in shown


def extension(tmp_path: Path) -> tuple[str, ModuleType]:
    """Return what a frame of a compiled module `apart.fast` names as its file, and the module."""
    (tmp_path / "fast.py").write_text("first\nsecond\n", encoding="utf-8")
    path = tmp_path / f"fast{EXTENSION_SUFFIXES[0]}"
    path.touch()
    spec = spec_from_loader("apart.fast", ExtensionFileLoader("apart.fast", str(path)))
    assert spec is not None
    module = ModuleType("apart.fast")
    module.__spec__, module.__loader__ = spec, spec.loader
    return str(Path("apart", "fast.py")), module


def test_the_source_beside_an_extension_is_found(tmp_path: Path) -> None:
    file, module = extension(tmp_path)
    assert linecache.getline(file, 2, vars(module)) == ""
    linecache.cache.pop(file, None)
    show_sources("apart", [str(tmp_path)])
    linecache.lazycache(file, vars(module))  # as `traceback` does
    linecache.checkcache(file)
    assert linecache.getline(file, 2, vars(module)) == "second\n"
    linecache.checkcache(file)
    assert linecache.getline(file, 1, vars(module)) == "first\n"
    linecache.cache.pop(file)


def test_a_package_without_a_folder_has_no_extensions(tmp_path: Path) -> None:
    before = dict(linecache.cache)
    archive = tmp_path / "packed.zip"
    archive.touch()
    show_sources("packed", [str(archive), str(archive / "packed"), str(tmp_path / "missing")])
    assert linecache.cache == before
