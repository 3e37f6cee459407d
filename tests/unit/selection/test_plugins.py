"""Which plugins a program gets."""

import functools
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore.selection.discovery import list_plugins, load_plugin, load_plugins, make_plugins_ahead
from tests.unit.selection.fakes import Entry, Fake


class Plugin:
    pass


def test_plugin_classes_and_functions_are_called_and_objects_are_taken_as_they_are(install):
    made, module = Plugin(), ModuleType("a_plugin")
    entries = {
        "class": Plugin,
        "function": lambda: 7,
        "partial": functools.partial(dict, a=1),
        "object": made,
        "module": module,
    }
    install(*(Entry(name, target) for name, target in entries.items()), group="loopcore.plugins")
    assert isinstance(load_plugin("class"), Plugin)
    assert load_plugin("class") is not load_plugin("class")
    assert load_plugin("function") == 7
    assert load_plugin("partial") == {"a": 1}
    assert load_plugin("object") is made
    assert load_plugin("module") is module


def test_plugins_come_from_the_environment_in_its_order(install, monkeypatch):
    install(*(Entry(name, name.upper()) for name in "abc"), group="loopcore.plugins")
    assert load_plugins() == []
    monkeypatch.setenv("LOOPCORE_PLUGINS", " c,,a , c")
    assert load_plugins() == [("c", "C"), ("a", "A")]
    assert load_plugins("b") == [("b", "B")]
    assert load_plugins(["b", "a"]) == [("b", "B"), ("a", "A")]
    assert load_plugins([]) == []


def test_unknown_plugin_lists_what_exists(install):
    install(Entry("trace", Plugin), group="loopcore.plugins")
    with pytest.raises(UsageError, match=r"no plugin 'trase' \(did you mean 'trace'\?\)"):
        load_plugin("trase")


def test_plugin_that_fails_names_its_distribution_and_cause(install):
    def broken():
        raise RuntimeError("no port")

    install(Entry("broken", broken, "p"), Entry("missing", ImportError("gone"), "q"), group="loopcore.plugins")
    with pytest.raises(UsageError, match=r"of p 1\.0.*RuntimeError: no port"):
        load_plugin("broken")
    with pytest.raises(UsageError, match=r"of q 1\.0.*cannot be imported: ImportError: gone"):
        load_plugin("missing")
    rows = list_plugins()
    assert [(row.name, row.available) for row in rows] == [("broken", True), ("missing", False)]


def test_plugin_that_ends_the_process_is_named_and_listed(install):
    install(Entry("leaving", lambda: sys.exit(4), "p"), Entry("gone", SystemExit(0), "q"), group="loopcore.plugins")
    with pytest.raises(UsageError, match=r"of p 1\.0.*cannot be created: SystemExit: 4"):
        load_plugin("leaving")
    with pytest.raises(UsageError, match=r"of q 1\.0.*cannot be imported: SystemExit: 0"):
        load_plugin("gone")
    assert [(row.name, row.available) for row in list_plugins()] == [("gone", False), ("leaving", True)]


@pytest.mark.parametrize("value", ["extension:Absent", "extensionn:Plugin", "extension.part:Plugin", "failing:Plugin"])
def test_entry_point_that_names_something_absent_is_to_be_corrected(
    install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
):
    (tmp_path / "extension.py").write_text("class Plugin: pass")
    (tmp_path / "failing.py").write_text("import sys; sys.absent")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "extension", ModuleType("extension"))  # so that the import is undone at the end
    monkeypatch.delitem(sys.modules, "extension")
    entry = Entry("mine", None, "p", value)
    entry.load = EntryPoint("mine", value, "loopcore.plugins").load
    install(entry, group="loopcore.plugins")
    with pytest.raises(UsageError) as refused:
        load_plugin("mine")
    advice = str(refused.value).rpartition("; ")[2]
    assert ("install what it needs" in advice) is value.startswith("failing")
    assert ("correct it in the distribution's pyproject.toml" in advice) is value.startswith("extension")


def test_plugin_that_was_compiled_for_another_build_is_to_be_installed_again(install):
    def load() -> object:
        raise ValueError("Observer size changed, may indicate binary incompatibility. Expected 40, got 32")

    entry = Entry("mine", None, "p")
    entry.load = load
    install(entry, group="loopcore.plugins")
    with pytest.raises(UsageError, match=r"compiled for another build of loopcore.*--no-build-isolation"):
        load_plugin("mine")


def test_what_a_plugin_says_of_its_options_is_told_in_its_words(install):
    def choosy():
        raise UsageError("port=0 is none")

    install(Entry("choosy", choosy, "p"), group="loopcore.plugins")
    with pytest.raises(UsageError, match=r"plugin 'choosy' \(.*\): port=0 is none$"):
        load_plugin("choosy")


def test_a_plugin_that_is_given_without_a_list_is_a_mistake_that_is_named():
    with pytest.raises(UsageError, match="a list of names and objects"):
        load_plugins(Plugin())


def test_a_plugin_class_is_refused_with_what_to_write_instead():
    with pytest.raises(UsageError, match=r"^plugin Plugin is a class; pass an instance: Plugin\(\)$"):
        loopcore.new_event_loop(plugins=[Plugin])
    with pytest.raises(UsageError, match="None is not a plugin"):
        loopcore.new_event_loop(plugins=[None])


@pytest.mark.parametrize("use", [lambda: loopcore.new_event_loop(Fake()), make_plugins_ahead])
def test_a_factory_that_makes_no_plugin_is_named(install, monkeypatch, use):
    async def wait():
        return Plugin()

    targets = {"nothing": lambda: None, "kind": lambda: Plugin, "wait": wait}
    install(*(Entry(name, target) for name, target in targets.items()), group="loopcore.plugins")
    for name, complaint in (
        ("nothing", "is None: pass an object with hooks"),
        ("kind", r"is a class; pass an instance: Plugin\(\)"),
        ("wait", "is a coroutine function, .* declare a class or a function"),
    ):
        monkeypatch.setenv("LOOPCORE_PLUGINS", name)
        with pytest.raises(UsageError, match=f"plugin '{name}' {complaint}$"):
            use()
