import gc
import weakref
from collections.abc import Iterator

import pytest

from loopcore_backends.sim import collecting
from loopcore_backends.sim.collecting import collected_steadily


@pytest.fixture(autouse=True)
def _nothing_frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    gc.unfreeze()  # what tests/conftest.py has frozen
    monkeypatch.setattr(collecting, "_is_frozen", False)
    monkeypatch.setattr(collecting, "_simulations", 0)
    yield
    gc.freeze()


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_nothing_is_collected_until_the_end() -> None:
    with collected_steadily():
        assert not gc.isenabled()
        cycle = weakref.ref(Cycle())
        for _ in range(5000):
            Cycle()
        assert cycle() is not None
    assert cycle() is None
    assert gc.isenabled()
    assert gc.get_freeze_count() < 2_000


def test_what_was_garbage_before_is_not_collected_meanwhile() -> None:
    gc.disable()
    try:
        before = weakref.ref(Cycle())
        with collected_steadily():
            within = weakref.ref(Cycle())
            gc.collect()
            assert (before() is None, within() is None) == (False, True)
        assert not gc.isenabled()
    finally:
        gc.enable()
    gc.collect()
    assert before() is None


def test_what_simulations_leave_in_cycles_does_not_add_up() -> None:
    left: list[weakref.ref[Cycle]] = []
    for _ in range(3 * collecting.LEFT_OVER):
        with collected_steadily():
            cycle = Cycle()
            left.append(weakref.ref(cycle))
        del cycle  # garbage only after the simulation's own collection
    assert sum(each() is not None for each in left) < 2 * collecting.LEFT_OVER


def test_a_program_s_own_freeze_is_kept() -> None:
    gc.freeze()
    with collected_steadily():
        pass
    assert gc.get_freeze_count() > 2_000


def test_a_program_that_froze_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.freeze()
    with collected_steadily():
        pass
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("it takes time for each frozen object"))
    with collected_steadily():
        pass
