"""Which backend and which plugins a program gets, and what it is told when it gets none."""

import functools
import os
import subprocess
import sys
from importlib import metadata
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopcore import discovery
from loopcore.backend import ProbeResult
from loopcore.discovery import Row, choose_backend, list_backends, list_plugins, load_plugin, load_plugins
from loopcore.errors import BackendError, BackendUnavailableError, LoopcoreError, UsageError


class Fake:
    """Has what the port asks for, and does nothing."""

    name = "fake"
    capabilities: frozenset = frozenset()

    @classmethod
    def probe(cls):
        return ProbeResult(True)

    def register(self, fd, interest): ...
    def modify(self, fd, interest): ...
    def unregister(self, fd): ...
    def wait(self, timeout): ...
    def wake(self): ...
    def close(self): ...


class Absent(Fake):
    @classmethod
    def probe(cls):
        return ProbeResult(False, "the moon is in the wrong phase")


class Distribution:
    def __init__(self, name, version="1.0"):
        self.name = name
        self.version = version


class Entry:
    """An entry point that counts how often it is loaded."""

    def __init__(self, name, target, distribution="loopcore", value=None):
        self.name = name
        self.value = value or f"package_of_{name}:Backend"
        self.dist = distribution and Distribution(distribution)
        self.target = target
        self.loaded = 0

    def load(self):
        self.loaded += 1
        if isinstance(self.target, Exception):
            raise self.target
        return self.target


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No choice in the environment, and nothing remembered from or for other tests."""
    monkeypatch.delenv("LOOPCORE_BACKEND", raising=False)
    monkeypatch.delenv("LOOPCORE_PLUGINS", raising=False)
    discovery.refresh()
    yield
    for catalogue in (discovery.BACKENDS, discovery.PLUGINS):
        catalogue._registered.clear()
        catalogue.refresh()


@pytest.fixture
def install(monkeypatch):
    """Makes these the only entry points there are."""

    def pretend(*entries, group="loopcore.backends"):
        there_are = {group: entries}
        monkeypatch.setattr(metadata, "entry_points", lambda group: there_are.get(group, ()))
        discovery.refresh()
        return entries

    return pretend


def refusal(kind, spec=None):
    with pytest.raises(kind) as caught:
        choose_backend(spec)
    assert type(caught.value) is kind
    return str(caught.value)


# What ships with loopcore


def test_own_backends_are_installed_as_entry_points():
    rows = {row.name: row for row in list_backends()}
    assert {"epoll", "poll", "select"} <= set(rows)
    assert rows["select"] == Row("select", True, "", f"loopcore {metadata.version('loopcore')}")


def test_core_does_not_import_what_nobody_asked_for():
    code = (
        "import sys, loopcore.discovery as d; d.choose_backend('select'); "
        "print(sorted(m for m in sys.modules if m.startswith('loopcore_backends.') and '._' not in m))"
    )
    assert run(code) == "['loopcore_backends.select_']"


def run(code, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOOPCORE_")} | variables
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr.strip().rpartition("\n")[2]).strip()


CHOOSE = "from loopcore.discovery import choose_backend; print(*choose_backend()[::2], sep=' | ')"


def test_environment_names_the_backend_of_a_program():
    assert run(CHOOSE, LOOPCORE_BACKEND="select") == "select | LOOPCORE_BACKEND=select asks for it"


def test_wrong_name_in_the_environment_ends_a_program_with_a_clear_error():
    assert run(CHOOSE, LOOPCORE_BACKEND="selekt").startswith(
        "loopcore.errors.UsageError: LOOPCORE_BACKEND=selekt: there is no backend 'selekt' (did you mean 'select'?)"
    )


# Names


def test_argument_beats_the_environment(install, monkeypatch):
    install(Entry("one", Fake), Entry("two", Fake))
    monkeypatch.setenv("LOOPCORE_BACKEND", "one")
    assert choose_backend().name == "one"
    assert choose_backend("two")[::2] == ("two", "backend='two' asks for it")


@pytest.mark.parametrize("value", ["", "  ", "\t"])
def test_empty_variable_counts_as_unset(install, monkeypatch, value):
    install(Entry("poll", Fake))
    monkeypatch.setenv("LOOPCORE_BACKEND", value)
    assert choose_backend().name == "poll"


@pytest.mark.parametrize("spec", ["", " ", ",", " ,, "])
def test_empty_argument_is_an_error(install, spec):
    install(Entry("poll", Fake))
    assert "names no backend" in refusal(UsageError, spec)


def test_variable_of_commas_is_an_error(monkeypatch):
    monkeypatch.setenv("LOOPCORE_BACKEND", ",")
    assert "LOOPCORE_BACKEND=, names no backend" in refusal(UsageError)


def test_argument_that_is_no_name_is_an_error():
    assert "register_backend(name, factory)" in refusal(UsageError, Fake)


@pytest.mark.parametrize("spec", [" one", "one,", ",one,,", "one , one"])
def test_spaces_and_spare_commas_are_ignored(install, spec):
    install(Entry("one", Fake))
    assert choose_backend(spec).name == "one"


def test_unknown_name_lists_what_exists(install):
    install(Entry("epoll", Fake), Entry("poll", Fake))
    text = refusal(UsageError, "EPOL")
    assert text == "backend='EPOL': there is no backend 'EPOL' (did you mean 'epoll'?); installed: epoll, poll"


def test_unknown_name_without_any_backend_says_so(install):
    install()
    assert "none is installed" in refusal(UsageError, "epoll")


def test_factory_of_the_choice_makes_the_backend(install):
    install(Entry("one", Fake))
    assert isinstance(choose_backend("one").factory(), Fake)


# Lists


def test_list_takes_the_first_that_is_available(install):
    third = Entry("third", Fake)
    install(Entry("first", Absent), Entry("second", Fake), third)
    choice = choose_backend("unknown,first,second,third")
    assert choice.name == "second"
    assert "there is no backend 'unknown'" in choice.reason
    assert "wrong phase" in choice.reason
    assert third.loaded == 0


def test_list_without_an_available_backend_gives_every_reason(install):
    install(Entry("first", Absent), Entry("second", ImportError("no module named moon")))
    text = refusal(BackendUnavailableError, "first,second,third")
    for reason in ("first: ", "wrong phase", "no module named moon", "there is no backend 'third'"):
        assert reason in text


def test_list_of_unknown_names_blames_the_caller(install):
    install(Entry("one", Fake))
    refusal(UsageError, "two,three")


def test_single_name_never_becomes_another(install):
    install(Entry("one", Absent), Entry("poll", Fake), Entry("select", Fake))
    text = refusal(BackendUnavailableError, "one")
    assert text == "backend='one': backend 'one' cannot run here: the moon is in the wrong phase"


# auto


def test_auto_takes_the_first_of_its_order(install):
    install(Entry("select", Fake), Entry("poll", Fake), Entry("epoll", Absent))
    choice = choose_backend("auto")
    assert choice.name == "poll"
    assert choice.reason.startswith("backend='auto' takes the first of epoll, poll, select")
    assert choose_backend().reason.startswith("auto takes the first")


def test_auto_imports_only_what_it_tries(install):
    epoll, poll, uring = install(Entry("epoll", Fake), Entry("poll", Fake), Entry("uring", Fake))
    assert choose_backend().name == "epoll"
    assert (epoll.loaded, poll.loaded, uring.loaded) == (1, 0, 0)


def test_auto_never_takes_uring(install):
    install(Entry("uring", Fake), Entry("proactor", Fake), Entry("select", Absent))
    refusal(BackendUnavailableError)


def test_auto_ignores_strangers(install):
    stranger = Entry("kqueue", Fake, distribution="stranger")
    twin = Entry("select", Fake, distribution="twin")
    install(stranger, twin, Entry("select", Fake))
    discovery.register_backend("poll", Fake)
    assert choose_backend().name == "select"
    assert stranger.loaded == twin.loaded == 0


def test_auto_can_end_a_list(install):
    install(Entry("poll", Fake), Entry("uring", Absent))
    assert choose_backend("uring,auto").name == "poll"


def test_auto_without_an_installation_says_so(install):
    install(Entry("select", Fake, distribution="stranger"))
    assert "pip install loopcore" in refusal(BackendUnavailableError)


# Declared twice


def test_two_declarers_are_both_named(install):
    install(Entry("one", Fake, "first", "a:A"), Entry("one", Fake, "second", "b:B"))
    text = refusal(UsageError, "one")
    assert "a:A of first 1.0" in text
    assert "b:B of second 1.0" in text
    (row,) = list_backends()
    assert (row.available, row.distribution) == (False, "first 1.0, second 1.0")


def test_registering_over_an_entry_point_names_both(install):
    install(Entry("one", Fake, "first", "a:A"))
    with pytest.raises(UsageError, match=r"a:A of first 1\.0.*Fake of register_backend\(\)"):
        discovery.register_backend("one", Fake)


def test_distribution_installed_over_a_registered_name_is_noticed(install):
    install()
    discovery.register_backend("one", Fake)
    install(Entry("one", Fake, "late"))
    assert "declared 2 times" in refusal(UsageError, "one")


# Broken ones


def test_entry_point_that_cannot_be_imported_is_unavailable_with_its_cause(install):
    cause = ModuleNotFoundError("No module named 'moon'")
    install(Entry("one", cause, "stranger"))
    with pytest.raises(BackendUnavailableError, match="ModuleNotFoundError: No module named 'moon'") as caught:
        choose_backend("one")
    assert caught.value.__cause__ is cause
    assert "of stranger 1.0" in str(caught.value)


def test_import_is_tried_again_after_a_failure(install):
    (entry,) = install(Entry("one", ImportError("not yet")))
    refusal(BackendUnavailableError, "one")
    entry.target = Fake
    assert choose_backend("one").factory is Fake


def test_import_and_scan_happen_once(install):
    (entry,) = install(Entry("one", Fake))
    for _ in range(3):
        choose_backend("one")
    assert entry.loaded == 1


class NoWake(Fake):
    wake = None


class Probeless(Fake):
    probe = None


class Versioned(Fake):
    backend_api: object = (1, 0)


def versioned(version):
    return type("Versioned", (Fake,), {"backend_api": version})


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        (NoWake, "has no wake"),
        (Probeless, "has no probe"),
        (type("Empty", (), {"probe": Fake.probe}), "has no register, modify, unregister, wait, wake, close"),
        (7, "cannot be called"),
        (ModuleType("a_module"), "cannot be called"),
        (lambda: Fake(), "has no probe"),
        (versioned((2, 0)), "version"),
        (versioned((1, 99)), "version"),
        (versioned((0, 9)), "version"),
        (versioned("1.0"), "version"),
        (type("Raises", (Fake,), {"probe": lambda: 1 // 0}), "ZeroDivisionError"),
        (type("Wrong", (Fake,), {"probe": lambda: True}), "no ProbeResult"),
    ],
)
def test_backend_that_breaks_the_port_is_refused_with_the_reason(install, target, complaint):
    install(Entry("one", target, "stranger"))
    text = refusal(BackendError, "one")
    assert complaint in text
    assert "stranger 1.0" in text


def test_backend_of_this_version_is_accepted(install):
    install(Entry("one", Versioned))
    assert choose_backend("one").factory is Versioned


def test_function_as_factory_is_checked_when_it_makes_the_backend(install):
    good = functools.partial(Fake)
    bad = functools.partial(NoWake)
    good.probe = bad.probe = Fake.probe
    install(Entry("good", good), Entry("bad", bad))
    assert isinstance(choose_backend("good").factory(), Fake)
    with pytest.raises(BackendError, match="has no wake"):
        choose_backend("bad").factory()


# Registered without installation


def test_registered_backend_can_be_chosen_and_taken_back(install):
    install(Entry("one", Fake))
    discovery.register_backend("mine", Fake)
    discovery.register_backend("mine", Fake)
    assert choose_backend("mine").factory is Fake
    assert Row("mine", True, "", "register_backend()") in list_backends()
    discovery.unregister_backend("mine")
    refusal(UsageError, "mine")
    with pytest.raises(UsageError, match="was not registered"):
        discovery.unregister_backend("mine")


def test_registered_name_is_not_taken_over(install):
    install()
    discovery.register_backend("mine", Fake)
    with pytest.raises(UsageError, match=r"Fake.*Absent"):
        discovery.register_backend("mine", Absent)


def test_registering_again_after_taking_back_gives_the_new_one(install):
    install()
    discovery.register_backend("mine", Fake)
    assert choose_backend("mine").factory is Fake
    discovery.unregister_backend("mine")
    discovery.register_backend("mine", Versioned)
    assert choose_backend("mine").factory is Versioned


@pytest.mark.parametrize("name", ["", "auto", "a,b", "a b", " a", None, 3])
def test_impossible_name_is_refused(install, name):
    install()
    with pytest.raises(UsageError, match="cannot name a backend"):
        discovery.register_backend(name, Fake)


def test_broken_backend_is_refused_when_it_is_registered(install):
    install()
    with pytest.raises(BackendError, match="has no wake"):
        discovery.register_backend("mine", NoWake)


# The list


def test_rows_say_why_not_and_come_in_the_order_of_auto(install):
    install(
        Entry("zed", Fake, "stranger"),
        Entry("select", Fake),
        Entry("broken", OSError("disk on fire")),
        Entry("epoll", Absent),
    )
    rows = list_backends()
    assert [row.name for row in rows] == ["epoll", "select", "broken", "zed"]
    assert [row.available for row in rows] == [False, True, False, True]
    assert "wrong phase" in rows[0].reason
    assert "disk on fire" in rows[2].reason
    assert rows[3].distribution == "stranger 1.0"


def test_entry_point_without_a_distribution_is_listed(install):
    install(Entry("one", Fake, distribution=None))
    assert list_backends() == [Row("one", True, "", "an unknown distribution")]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    installed=st.dictionaries(st.sampled_from(["a", "b", "kqueue", "epoll", "poll", "select"]), st.booleans()),
    wishes=st.lists(st.sampled_from(["a", "b", "c", "auto", "epoll", "select", "", " "]), max_size=5),
)
def test_choice_agrees_with_a_naive_model(install, installed, wishes):
    install(*(Entry(name, Fake if works else Absent) for name, works in installed.items()))
    tried = [name for wish in wishes for name in (discovery.AUTO_ORDER if wish == "auto" else [wish.strip()])]
    working = [name for name in tried if installed.get(name)]
    if working:
        assert choose_backend(",".join(wishes)).name == working[0]
    else:
        with pytest.raises(LoopcoreError) as caught:
            choose_backend(",".join(wishes))
        assert all(name in str(caught.value) for name in wishes if name in installed)


# Plugins


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
