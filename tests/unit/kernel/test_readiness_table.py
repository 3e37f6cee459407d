"""The readiness table: what it tells the backend, and which events it lets through."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from loopcore.kernel.readiness import Readiness
from loopcore.kernel.runnable import Runnable
from loopcore.ports.interest import READ, WRITE
from loopcore.testing import ScriptedBackend

descriptors = st.integers(3, 6)


class Owner:
    """The object for which the registration of descriptor 5 is kept, in place of a socket."""

    def fileno(self) -> int:
        return 5


class ReadinessMachine(RuleBasedStateMachine):
    """The table against a dict; the backend's calls against the interests they add up to."""

    def __init__(self) -> None:
        super().__init__()
        self.backend = ScriptedBackend()
        self.table = Readiness(self.backend)
        self.model: dict[int, dict[int, Runnable]] = {}
        self.interests: dict[int, int] = {}

    def _wanted(self) -> dict[int, int]:
        return {fd: sum(halves) for fd, halves in self.model.items() if halves}

    @rule(fd=descriptors, half=st.sampled_from([READ, WRITE]))
    def set(self, fd: int, half: int) -> None:
        runnable = Runnable()
        replaced = (self.table.set_reader if half == READ else self.table.set_writer)(fd, runnable)
        assert replaced is self.model.setdefault(fd, {}).get(half)
        self.model[fd][half] = runnable

    @rule(fd=descriptors, half=st.sampled_from([READ, WRITE]))
    def clear(self, fd: int, half: int) -> None:
        cleared = (self.table.clear_reader if half == READ else self.table.clear_writer)(fd)
        assert cleared is self.model.get(fd, {}).pop(half, None)

    @rule(fd=descriptors)
    def forget(self, fd: int) -> None:
        self.table.forget(fd)
        self.model.pop(fd, None)

    @rule(fd=descriptors, half=st.sampled_from([READ, WRITE]))
    def be_refused(self, fd: int, half: int) -> None:
        if half in self.model.get(fd, {}):
            return  # replacing asks the backend nothing
        self.backend.refuse = OSError("refused")
        with pytest.raises(OSError, match="refused"):
            (self.table.set_reader if half == READ else self.table.set_writer)(fd, Runnable())
        self.backend.refuse = None

    @invariant()
    def the_backend_was_told_each_change_once(self) -> None:
        for call in self.backend.calls:
            fd = call[1]
            if call[0] == "register":
                assert fd not in self.interests
            else:
                assert self.interests[fd] != (call[2] if call[0] == "modify" else 0)
            if call[0] == "unregister":
                del self.interests[fd]
            else:
                self.interests[fd] = call[2]
        assert len(self.backend.calls) <= 1
        self.backend.calls.clear()
        assert self.interests == self._wanted()

    @invariant()
    def lookups_find_what_was_set(self) -> None:
        self.table.tick += 1
        assert sorted(self.table.watched()) == sorted(self._wanted())
        for fd in range(3, 7):
            entry = self.table.lookup(fd)
            halves = self.model.get(fd, {})
            assert (entry is None) == (not halves)
            assert (entry and entry.reader, entry and entry.writer) == (halves.get(READ), halves.get(WRITE))


ReadinessMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestReadinessAgainstADict = ReadinessMachine.TestCase


def test_an_entry_knows_in_which_ticks_reader_and_writer_came() -> None:
    table = Readiness(ScriptedBackend())
    table.tick = 1
    table.set_reader(5, Runnable())
    table.tick = 2
    table.set_writer(5, Runnable())
    entry = table.lookup(5)
    assert entry is not None
    assert (entry.reader_tick, entry.writer_tick) == (1, 2)
    table.set_reader(5, Runnable())
    assert entry.reader_tick == 2


def test_a_descriptor_is_found_by_the_object_it_was_given_as_until_nobody_watches_it() -> None:
    table, given = Readiness(ScriptedBackend()), object()
    table.note_fileobj(5, given)
    assert table.find(given) is None
    table.set_reader(5, Runnable())
    table.set_writer(5, Runnable())
    table.note_fileobj(5, given)
    table.clear_reader(5)
    assert table.find(given) == 5
    assert table.find(object()) is None
    table.clear_writer(5)
    assert table.find(given) is None


def test_interest_of_a_descriptor_that_the_backend_lost_can_be_taken_back() -> None:
    backend = ScriptedBackend()
    table = Readiness(backend)
    table.set_reader(5, Runnable())
    table.set_writer(5, Runnable())
    backend.refuse = FileNotFoundError("closed")
    assert table.clear_reader(5) is not None
    backend.refuse = None
    assert table.clear_writer(5) is not None
    assert backend.calls[-1] == ("unregister", 5)


def test_forgetting_empties_an_entry_that_a_dispatch_holds() -> None:
    table = Readiness(ScriptedBackend())
    table.set_reader(5, Runnable())
    table.set_writer(5, Runnable())
    table.tick += 1
    entry = table.lookup(5)
    assert entry is not None
    table.forget(5)
    assert (entry.reader, entry.writer) == (None, None)


def test_forgetting_an_unknown_descriptor_is_fine_and_unheard() -> None:
    backend = ScriptedBackend()
    Readiness(backend).forget(77)
    assert backend.calls == []


def test_forgetting_a_descriptor_is_a_change_that_the_next_tick_polls_for() -> None:
    table = Readiness(ScriptedBackend())
    table.set_reader(5, Runnable())
    table.changed = False
    table.forget(77)
    assert not table.changed
    table.forget(5)
    assert table.changed


def test_a_reader_that_resumes_is_not_given_the_events_of_its_tick() -> None:
    table, owner = Readiness(ScriptedBackend()), Owner()
    table.keeps = True
    table.set_reader(5, Runnable())
    assert table.keep_reader(5, owner, False)
    table.changed = False
    table.tick += 1
    assert table.resume_reader(5, owner, Runnable())
    entry = table.lookup(5)
    assert entry is not None
    assert entry.reader_tick == table.tick
    assert table.changed, "what it waits for may have come since the last wait"


def test_only_the_owner_of_a_kept_registration_knows_that_there_was_nothing_to_read() -> None:
    table, owner = Readiness(ScriptedBackend()), Owner()
    table.keeps = True
    table.set_reader(5, Runnable())
    table.keep_reader(5, owner, True)
    assert table.is_drained(owner)
    assert not table.is_drained(Owner()), "another socket with the number"


def test_a_new_backend_that_refuses_a_descriptor_leaves_it_unwatched() -> None:
    table = Readiness(ScriptedBackend())
    table.set_reader(5, Runnable())
    fresh = ScriptedBackend()
    fresh.refuse = OSError("closed by the program")
    table.use(fresh)
    table.register_all()
    fresh.refuse = None
    assert table.lookup(5) is None
    fresh.calls.clear()
    table.set_reader(5, Runnable())
    assert fresh.calls == [("register", 5, READ)]
