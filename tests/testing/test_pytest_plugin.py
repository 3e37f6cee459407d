"""pytest's plugin, from outside: what a project gets, and what it is spared."""

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from loopcore.testing.leaks import Watch

ROOT = Path(__file__).parents[2]
LEAKS = """
import asyncio, os, threading
import pytest

pytestmark = pytest.mark.usefixtures("loopcore_no_leaks")
kept = []
of_the_session = os.open(os.devnull, os.O_RDONLY)


def test_clean(loop_factory):
    loop = loop_factory()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_descriptor():
    kept.append(os.open(os.devnull, os.O_RDONLY))


def test_reused_number():
    reader, writer = os.pipe()
    os.dup2(reader, of_the_session)  # closes what was there before
    os.close(reader)
    os.close(writer)


def test_thread():
    kept.append(threading.Event())
    threading.Thread(target=kept[-1].wait, daemon=True).start()


def test_task(loop_factory):
    loop = loop_factory()
    kept.extend([loop, loop.create_task(asyncio.sleep(0))])


def test_report(loop_factory):
    loop = loop_factory()
    loop.call_exception_handler({"message": "nobody has asked"})
    loop.close()
"""
SPARED = """
import sys


def test_nothing_of_loopcore_is_imported():
    assert not [name for name in sys.modules if name.split(".")[0] == "loopcore"]
"""
NAMED = """
import loopcore


def test_backend(loop_factory):
    for make in (loop_factory, loopcore.new_event_loop):
        loop = make()
        assert loop.backend.name == "select"
        loop.close()
"""
DECLARED = """
from loopcore.testing.conformance import BackendContract


class TestSelect(BackendContract):
    backend = "select"
    levels = ("shape",)
    cannot = {"probe": "nobody may look", "test_methods_take_what_core_calls_them_with": "they are shy"}
"""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Runs pytest, with the plugin and nothing of ours beside it, on a file with `program`; returns code and output."""

    def run_pytest(program: str, *options: str) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(program, encoding="utf-8")
        (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-p", "loopcore_pytest", "-p", "no:cacheprovider", *options]
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("LOOPCORE_", "PYTEST_"))}
        ended = subprocess.run(
            [*command, "-q", "test_it.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
            env={**variables, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )  # fmt: skip
        return ended.returncode, ended.stdout + ended.stderr

    return run_pytest


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_what_is_left_behind_fails_the_test_that_left_it(run: Any) -> None:
    _, said = run(LEAKS)
    for name, kind in {
        "descriptor": "descriptors: ",
        "reused_number": "-> pipe:[",
        "thread": "threads: <Thread",
        "task": "pending tasks: <",
        "report": "errors reported by a loop: nobody has asked",
    }.items():
        assert f"ERROR at teardown of test_{name}" in said
        assert kind in said
    assert "teardown of test_clean" not in said
    assert "6 passed, 5 errors" in said


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted where /proc lists them")
@pytest.mark.parametrize("has_a_name", [False, True])
def test_nameless_file_in_the_place_of_another_is_capfds(has_a_name: bool, tmp_path: Path) -> None:
    make = tempfile.NamedTemporaryFile if has_a_name else tempfile.TemporaryFile
    with tempfile.TemporaryFile(dir=tmp_path) as before, make(dir=tmp_path) as after:
        watch = Watch()
        os.dup2(after.fileno(), before.fileno(), inheritable=False)
        told = [each for each in watch.end() if each.startswith("descriptors: ")]
        assert len(told) == has_a_name


def test_it_imports_nothing_of_loopcore_before_it_is_used(run: Any) -> None:
    code, said = run(SPARED)
    assert code == 0, said


def test_option_chooses_the_backend_of_every_loop(run: Any) -> None:
    code, said = run(NAMED, "--loopcore-backend", "select")
    assert code == 0, said


def test_backend_that_is_none_is_an_error_of_usage(run: Any) -> None:
    code, said = run(NAMED, "--loopcore-backend", "selct")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "--loopcore-backend=selct" in said
    assert "select" in said


def test_what_a_backend_cannot_is_skipped_and_listed(run: Any) -> None:
    code, said = run(DECLARED)
    assert code == 0, said
    assert "what the backend cannot" in said
    assert "cannot (probe): nobody may look" in said
    assert "cannot (test_methods_take_what_core_calls_them_with): they are shy" in said


def test_packages_ask_pytest_not_to_rewrite_them() -> None:
    """Else pytest warns, where warnings are errors: then `loopcore run -m pytest` would end before it began."""
    for package in ("core/loopcore", "core/loopcore_pytest", "backends/loopcore_backends", "plugins/loopcore_plugins"):
        source = (ROOT / package / "__init__.py").read_text(encoding="utf-8")
        assert "PYTEST_DONT_REWRITE" in (ast.get_docstring(ast.parse(source)) or "")
