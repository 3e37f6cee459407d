"""What happens to names that are declared twice, wrongly, or without an installation."""

import functools
import sys
from types import ModuleType

import pytest

from loopcore.errors import BackendError, BackendUnavailableError, UsageError
from loopcore.loop import EventLoop
from loopcore.ports.direct import DirectPort
from loopcore.selection import discovery
from loopcore.selection.discovery import Extension, choose_backend, list_backends
from tests.unit.selection.fakes import Absent, Entry, Fake, NoWake, Probeless, Versioned, refusal

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


def test_entry_point_that_ends_the_process_is_unavailable_and_the_others_are_listed(install):
    class Leaving(Fake):
        details = staticmethod(sys.exit)

    install(Entry("gone", SystemExit(0), "stranger"), Entry("leaving", Leaving), Entry("one", Fake))
    assert "cannot be imported: SystemExit: 0" in refusal(BackendUnavailableError, "gone")
    assert [(row.name, row.available) for row in list_backends()] == [("gone", False), ("leaving", True), ("one", True)]
    assert [bool(facts.reason) for facts in discovery.describe_backends()] == [True, True, False]


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


def versioned(version):
    return type("Versioned", (Fake,), {"backend_api": version})


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        (NoWake, "has no wake"),
        (Probeless, "has no probe"),
        (type("Empty", (), {"probe": Fake.probe}), "has no register, modify, unregister, wait, wake, close"),
        (type("Waitless", (DirectPort, Fake), {}), "has no wait"),
        (7, "cannot be called"),
        (ModuleType("a_module"), "cannot be called"),
        (versioned((2, 0)), "version"),
        (versioned((1, 99)), "version"),
        (versioned((0, 9)), "version"),
        (versioned("1.0"), "version '1.0' of the backend port"),
        (versioned((1, "0")), "version (1, '0') of the backend port"),
        (versioned((1, None)), "version"),
        (versioned((1,)), "version"),
        (type("Raises", (Fake,), {"probe": lambda: 1 // 0}), "ZeroDivisionError"),
        (type("Leaves", (Fake,), {"probe": sys.exit}), "SystemExit"),
        (type("Wrong", (Fake,), {"probe": lambda: True}), "not a ProbeResult"),
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


@pytest.mark.parametrize("lacking", ["name", "capabilities"])
@pytest.mark.parametrize("value", ["absent", None, 7, ["flat_cost"]])
def test_backend_without_a_name_or_capabilities_is_refused_when_it_is_made(install, lacking, value):
    kind = type("Lacking", (Fake,), {lacking: property(lambda self: self.absent) if value == "absent" else value})
    install(Entry("one", kind, "stranger"), Entry("two", lambda: kind(), "stranger"))
    for name in ("one", "two"):
        with pytest.raises(BackendError, match=rf"^backend '{name}' \(.* of stranger 1\.0\) has no `{lacking}` that"):
            EventLoop(name)
    with pytest.raises(BackendError, match=f"^backend <.*Lacking.*> has no `{lacking}` that"):
        EventLoop(kind())


def test_name_and_capabilities_may_be_set_when_the_backend_is_made(install):
    def be_named(self):
        self.name, self.capabilities = "one", frozenset()

    methods = {name: member for name, member in vars(Fake).items() if callable(getattr(Fake, name))}
    install(Entry("one", type("Named", (), {**methods, "__init__": be_named})))
    EventLoop("one").close()


def test_wait_of_an_instance_is_a_wait(install):
    def make():
        made = type("Waitless", (DirectPort, Fake), {})()
        made.wait = lambda timeout: []
        return made

    install(Entry("one", make))
    assert list(choose_backend("one").factory().wait(0.0)) == []


def test_constructor_that_raises_is_named_in_a_note(install):
    class Full(Fake):
        def __init__(self):
            raise OSError(24, "Too many open files")

    install(Entry("full", Full, "stranger", "s:Full"))
    with pytest.raises(OSError, match="Too many open files") as caught:
        EventLoop("full")
    assert caught.value.__notes__ == ["raised by backend 'full' (s:Full of stranger 1.0) while it was being created"]


# Registered without installation


def test_registered_backend_can_be_chosen_and_taken_back(install):
    install(Entry("one", Fake))
    discovery.register_backend("mine", Fake)
    discovery.register_backend("mine", Fake)
    assert choose_backend("mine").factory is Fake
    assert Extension("mine", True, "", "register_backend()") in list_backends()
    discovery.unregister_backend("mine")
    refusal(UsageError, "mine")
    with pytest.raises(UsageError, match="was not registered"):
        discovery.unregister_backend("mine")


def test_a_choice_that_is_made_while_the_backend_is_taken_back_is_not_remembered(install):
    class Slow(Fake):
        @classmethod
        def probe(cls):
            if discovery.BACKENDS.declarations("mine"):
                discovery.unregister_backend("mine")  # as another thread may
            return super().probe()

    install(Entry("one", Fake))
    discovery.register_backend("mine", Slow)
    assert choose_backend("mine").factory is Slow
    refusal(UsageError, "mine")


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
    assert list_backends() == [Extension("one", True, "", "an unknown distribution")]
