"""What the build did, read back."""

import hashlib
import importlib.machinery
import json
import os
import sys
from pathlib import Path

import pytest

from loopcore import build_info

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "hotpack"
    folder.mkdir()
    for name in ("__init__.py", "hot.py", "hot.pxd", "cold.py", "only_header.pxd"):
        (folder / name).write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hotpack", raising=False)
    return folder


def test_hot_is_what_has_a_header(package: Path):
    assert build_info.hot_sources(package) == {"hotpack.hot": package / "hot.py"}


def test_the_python_side_of_a_c_library_is_never_compiled(package: Path):
    library = package / "_native"
    library.mkdir()
    for name in ("sockets.py", "sockets.pxd", "sockets.h"):
        (library / name).write_text("")
    assert build_info.hot_sources(package) == {"hotpack.hot": package / "hot.py"}


def test_templates_are_no_part_of_the_build(package: Path):
    template = package / "templates" / "plugin"
    template.mkdir(parents=True)
    for name in ("observer.py", "observer.pxd"):
        (template / name).write_text("")
    assert build_info.hot_sources(package) == {"hotpack.hot": package / "hot.py"}


def test_module_without_extension_is_pure(package: Path):
    module = build_info.describe_module("hotpack.hot", package / "hot.py", {})
    assert module == ("hotpack.hot", False, False)


@pytest.mark.parametrize(("text", "stale"), [("", False), ("edited = True", True)])
def test_digest_tells_a_stale_extension(package: Path, text: str, stale: bool):
    (package / f"hot{SUFFIX}").write_bytes(b"")
    (package / "hot.py").write_text(text)
    digests = {"hotpack.hot": hashlib.sha256(b"").hexdigest()}
    module = build_info.describe_module("hotpack.hot", package / "hot.py", digests)
    assert module == ("hotpack.hot", True, stale)


@pytest.mark.parametrize(("age", "stale"), [(-60, True), (60, False)])
def test_time_tells_a_stale_extension_that_was_compiled_by_hand(package: Path, age: int, stale: bool):
    extension = package / f"hot{SUFFIX}"
    extension.write_bytes(b"")
    edited = (package / "hot.py").stat().st_mtime
    os.utime(extension, (edited + age, edited + age))
    assert build_info.describe_module("hotpack.hot", package / "hot.py", {}).stale is stale


def test_notes_may_be_missing_or_broken(package: Path):
    assert build_info.read_notes(package) == {}
    (package / build_info.NOTES).write_text("{")
    assert build_info.read_notes(package) == {}
    (package / build_info.NOTES).write_text(json.dumps({"reason": "no compiler"}))
    assert build_info.read_notes(package) == {"reason": "no compiler"}


def test_this_build_says_whether_it_is_compiled():
    build = build_info.describe_build()
    assert {module.name for module in build.modules} >= {"loopcore.kernel.handle", "loopcore.kernel.task"}
    assert build.compiled is not bool(build.reason)
    assert build.stale == ()
