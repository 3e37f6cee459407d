"""Which backend a program gets: by argument, by environment, from a list, or by `auto`."""

import asyncio
import os
import subprocess
import sys
from importlib import metadata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import loopcore
from loopcore.errors import BackendError, BackendUnavailableError, LoopcoreError, UsageError
from loopcore.ports.readiness import ProbeResult
from loopcore.selection import discovery
from loopcore.selection.discovery import (
    AUTO_ORDER,
    BACKENDS,
    Extension,
    choose_backend,
    list_backends,
    register_backend,
    take_backend,
    unregister_backend,
)
from loopcore_backends.poll_ import PollBackend
from tests.unit.selection.fakes import Absent, Entry, Fake, Misled, refusal

# What ships with loopcore


def test_own_backends_are_installed_as_entry_points():
    rows = {row.name: row for row in list_backends()}
    assert {"epoll", "poll", "select"} <= set(rows)
    assert rows["select"] == Extension("select", True, "", f"loopcore {metadata.version('loopcore')}")


@pytest.mark.parametrize("name", AUTO_ORDER)
def test_an_own_backend_is_the_same_without_a_look_at_the_metadata(name):
    (declared,) = BACKENDS.declarations(name)
    own = BACKENDS.own(name)
    assert own[:4] == declared[:4]
    if BACKENDS.load(own).probe().available:
        assert BACKENDS.load(own) is BACKENDS.load(declared)


def test_core_does_not_import_what_nobody_asked_for():
    code = (
        "import sys, loopcore.selection.discovery as d; d.choose_backend('select'); "
        "print(sorted(m for m in sys.modules if m.startswith('loopcore_backends.') and '._' not in m))"
    )
    assert run(code) == "['loopcore_backends.select_']"


def run(code, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOOPCORE_")} | variables
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr.strip().rpartition("\n")[2]).strip()


CHOOSE = "from loopcore.selection.discovery import choose_backend; print(*choose_backend()[:3:2], sep=' | ')"


def test_environment_names_the_backend_of_a_program():
    assert run(CHOOSE, LOOPCORE_BACKEND="select") == "select | LOOPCORE_BACKEND=select asks for it"


def test_wrong_name_in_the_environment_ends_a_program_with_a_clear_error():
    assert run(CHOOSE, LOOPCORE_BACKEND="selekt").startswith(
        "loopcore.errors.UsageError: LOOPCORE_BACKEND=selekt: there is no backend 'selekt' (did you mean 'select'?)"
    )


# Again


class Moody(Fake):
    """Counts its probes; both they and the constructor complain about a setting, if it is wrong."""

    mood = "good"
    probes = 0

    def __init__(self):
        self.complain()

    @classmethod
    def probe(cls):
        cls.probes += 1
        cls.complain()
        return Fake.probe()

    @classmethod
    def complain(cls):
        if cls.mood != "good":
            raise UsageError(f"MOOD={cls.mood} is not 'good'")


@pytest.mark.parametrize(("whose", "probes"), [("loopcore", 1), ("stranger", 3)])
def test_own_backend_that_was_chosen_before_is_made_without_a_probe(install, whose, probes):
    kind = type("Moody", (Moody,), {})
    install(Entry("one", kind, whose))
    assert [type(take_backend("one")[0]) for _ in range(3)] == [kind] * 3
    assert kind.probes == probes


def test_setting_that_has_become_wrong_is_told_as_the_first_time(install, monkeypatch):
    install(Entry("one", Moody))
    take_backend("one")
    monkeypatch.setattr(Moody, "mood", "bad")
    with pytest.raises(UsageError, match=r"^backend='one': backend 'one': MOOD=bad is not 'good'$"):
        take_backend("one")


def test_setting_that_has_become_wrong_is_told_of_a_backend_that_a_list_passed_over(install, monkeypatch):
    class Elsewhere(Moody):
        @classmethod
        def probe(cls):
            cls.complain()
            return ProbeResult(False, "it runs elsewhere")

    install(Entry("one", Elsewhere), Entry("two", Fake))
    assert type(take_backend("one,two")[0]) is Fake
    monkeypatch.setattr(Elsewhere, "mood", "bad")
    with pytest.raises(UsageError, match=r"^backend='one,two': backend 'one': MOOD=bad is not 'good'$"):
        take_backend("one,two")


def test_strangers_backend_that_does_not_fit_the_port_is_closed(install):
    closed = []

    class Unfit(Fake):
        def __init__(self):
            self.capabilities = None

        def close(self):
            closed.append(self)

    install(Entry("one", Unfit, "stranger"))
    with pytest.raises(BackendError, match="capabilities"):
        take_backend("one")
    assert len(closed) == 1


def test_own_backend_that_cannot_be_made_any_more_gives_way(install, monkeypatch):
    class Gone(Fake):
        is_gone = False

        def __init__(self):
            if self.is_gone:
                raise AttributeError("somebody has taken out what it is made of")

        @classmethod
        def probe(cls):
            return ProbeResult(not cls.is_gone, "it is gone")

    install(Entry("epoll", Gone), Entry("poll", Fake))
    assert type(take_backend(None)[0]) is Gone
    monkeypatch.setattr(Gone, "is_gone", True)
    assert type(take_backend(None)[0]) is Fake
    with pytest.raises(BackendUnavailableError, match="it is gone"):
        take_backend("epoll")


# Names


def test_argument_beats_the_environment(install, monkeypatch):
    install(Entry("one", Fake), Entry("two", Fake))
    monkeypatch.setenv("LOOPCORE_BACKEND", "one")
    assert choose_backend().name == "one"
    assert choose_backend("two")[:3:2] == ("two", "backend='two' asks for it")


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
    choice = choose_backend("uring,first,second,third")
    assert choice.name == "second"
    assert "backend 'uring' is not installed" in choice.reason
    assert "wrong phase" in choice.reason
    assert third.loaded == 0


@pytest.mark.parametrize("spec", ["misled", "misled,poll", "absent,misled,poll"])
def test_list_does_not_pass_over_a_wrong_setting(install, spec):
    install(Entry("misled", Misled), Entry("poll", Fake), Entry("absent", Absent))
    assert refusal(UsageError, spec) == f"backend={spec!r}: backend 'misled': MISLED_BY=up is no direction"


def test_wrong_setting_of_what_is_not_come_to_is_no_matter(install):
    install(Entry("misled", Misled), Entry("poll", Fake))
    assert choose_backend("poll,misled").name == "poll"


def test_wrong_setting_shows_in_the_list_of_backends(install):
    install(Entry("misled", Misled))
    assert [(row.available, row.reason) for row in list_backends()] == [
        (False, "backend 'misled': MISLED_BY=up is no direction")
    ]


def test_list_without_an_available_backend_gives_every_reason(install):
    install(Entry("first", Absent), Entry("second", ImportError("no module named moon")))
    text = refusal(BackendUnavailableError, "first,second,kqueue")
    for reason in ("first (the moon is in the ", "wrong phase", "no module named moon", "kqueue (is not installed"):
        assert reason in text


@pytest.mark.parametrize("spec", ["epol,poll", "poll,epol", "epol,auto", "uring,epol"])
def test_misspelt_name_in_a_list_is_an_error_wherever_it_stands(install, spec):
    install(Entry("poll", Fake))
    text = refusal(UsageError, spec)
    assert text == f"backend={spec!r}: there is no backend 'epol' (did you mean 'epoll'?); installed: poll"


@pytest.mark.parametrize("name", ["kqueue", "epoll", "select", "proactor", "iocp", "uring"])
def test_list_may_name_what_other_platforms_have(install, name):
    install(Entry("poll", Fake))
    assert choose_backend(f"{name},poll").name == "poll"
    assert refusal(UsageError, name) == f"backend={name!r} is not installed; installed: poll"


def test_single_name_never_becomes_another(install):
    install(Entry("one", Absent), Entry("poll", Fake), Entry("select", Fake))
    text = refusal(BackendUnavailableError, "one")
    assert text == "backend='one' cannot run here: the moon is in the wrong phase"


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
    install(Entry("uring", Fake), Entry("sim", Fake), Entry("select", Absent))
    refusal(BackendUnavailableError)


def test_auto_prefers_a_native_port_then_a_played_one_where_there_is_no_poll(install):
    wanted = ["iocp", "proactor", "select"]
    for number, name in enumerate(wanted):
        install(*(Entry(each, Absent) for each in wanted[:number]), *(Entry(each, Fake) for each in wanted[number:]))
        assert choose_backend().name == name


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    installed=st.dictionaries(st.sampled_from(["a", "b", "kqueue", "epoll", "poll", "select"]), st.booleans()),
    wishes=st.lists(st.sampled_from(["a", "b", "c", "auto", "epoll", "select", "", " "]), max_size=5),
)
def test_choice_agrees_with_a_naive_model(install, installed, wishes):
    install(*(Entry(name, Fake if works else Absent) for name, works in installed.items()))
    tried = [name for wish in wishes for name in (discovery.AUTO_ORDER if wish == "auto" else [wish.strip()])]
    working = [name for name in tried if installed.get(name)]
    known = {*installed, *discovery.AUTO_ORDER, "auto", "", " "}
    if working and known.issuperset(wishes):
        assert choose_backend(",".join(wishes)).name == working[0]
    else:
        with pytest.raises(LoopcoreError) as caught:
            choose_backend(",".join(wishes))
        assert all(name in str(caught.value) for name in wishes if name in installed)


def test_a_function_can_be_registered_as_a_backend() -> None:
    register_backend("made", lambda: PollBackend())
    try:
        loop = loopcore.new_event_loop("made")
        assert loop.run_until_complete(asyncio.sleep(0, 7)) == 7
        loop.close()
    finally:
        unregister_backend("made")
