"""The rules of the house, applied to what is in the repository."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from loopcore.loop import EventLoop
from tests.architecture import classes, rules

SHIPPED = list(rules.package_sources())
CORE = [source for source in SHIPPED if source.module.split(".")[0] == "loopcore"]
PLUGGED = [source for source in SHIPPED if source.module.split(".")[0] != "loopcore"]
EVERYTHING = [*SHIPPED, *rules.other_sources()]
HEADERS = {path: path.read_text() for folder in rules.PACKAGES.values() for path in folder.rglob("*.pxd")}
HOT = [source for source in CORE + PLUGGED if source.path.with_suffix(".pxd").exists()]

LIFE_CYCLE = frozenset(
    {
        "run_forever",
        "run_until_complete",
        "stop",
        "is_running",
        "is_closed",
        "close",
        "shutdown_asyncgens",
        "shutdown_default_executor",
        "create_future",
        "create_task",
        "get_task_factory",
        "set_task_factory",
        "set_debug",
    }
)
"""What the facade does itself: its life, and the making of futures and tasks."""


def test_every_module_says_what_it_is():
    assert rules.missing_docstrings(CORE + PLUGGED) == []


def test_nothing_is_left_unfinished():
    assert rules.unfinished(EVERYTHING) == []


def test_core_does_not_know_what_is_plugged_in():
    assert rules.forbidden_imports(CORE, ("loopcore_backends", "loopcore_plugins")) == []


def test_imports_are_absolute():
    assert rules.relative_imports(EVERYTHING) == []


def test_compiled_modules_do_not_index_from_the_end():
    assert rules.negative_indices(HOT) == []


def test_compiled_code_checks_for_none_and_indices():
    """A check is left out only in functions that Python code cannot call: a program could crash the others."""
    assert rules.checks_that_are_not_on(rules.read_source(rules.ROOT / "core" / "build_ext.py")) == []
    assert [line for path, header in HEADERS.items() for line in rules.unchecked_declarations(header, path)] == []
    for source in HOT:
        assert rules.unchecked_functions(source, HEADERS[source.path.with_suffix(".pxd")]) == []


def test_both_builds_are_one_program():
    assert rules.builds_told_apart(CORE + PLUGGED) == []
    assert rules.c_in_headers(HEADERS) == []


def test_the_loop_is_two_classes():
    """Mechanisms are put together, not inherited."""
    kinds = [kind for kind in EventLoop.__mro__ if kind.__module__.startswith("loopcore")]
    assert [kind.__name__ for kind in kinds] == ["EventLoop", "Scheduler"]


def test_the_loop_delegates_without_logic():
    (loop,) = (source for source in CORE if source.module == "loopcore.loop")
    assert rules.delegations_with_logic(loop.tree, "EventLoop", LIFE_CYCLE) == []


def test_calls_through_self_are_answered():
    assert classes.unresolved_calls(CORE + PLUGGED) == []


@pytest.mark.parametrize("source", HOT, ids=lambda source: source.module)
def test_header_declares_what_the_source_has(source: rules.Source):
    assert classes.header_mismatches(source, source.path.with_suffix(".pxd")) == []


@pytest.mark.parametrize("source", HOT, ids=lambda source: source.module)
def test_types_are_compared_without_a_look_up(source: rules.Source):
    assert rules.types_by_name(source, source.path.with_suffix(".pxd").read_text(encoding="utf-8")) == []


def test_layers_point_downwards():
    """The contracts of import-linter, in pyproject.toml; in a process of its own, because it reconfigures logging."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"]
    result = subprocess.run(command, check=False, cwd=rules.ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_sources_are_found():
    """A rule that is applied to nothing is always kept."""
    names = {source.module for source in CORE + PLUGGED}
    assert {"loopcore", "loopcore.loop", "loopcore.kernel.scheduler", "loopcore_backends.epoll"} <= names
    assert any(isinstance(node, ast.ClassDef) for source in HOT for node in source.tree.body)
    assert Path(__file__) in {source.path for source in EVERYTHING}
