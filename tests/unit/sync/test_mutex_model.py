"""Mutex against a naive model: who holds it, and a list of those who wait; only the first may ever be awake."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from loopcore.sync import Mutex
from tests.unit.sync.stepping import Done, Step, Stepper


class MutexMachine(RuleBasedStateMachine):
    def __init__(self, threadsafe: bool) -> None:
        super().__init__()
        self.stepper = Stepper()
        self.mutex = Mutex([0], threadsafe=threadsafe)
        self.is_held = False
        self.waiting: list[Step] = []

    def teardown(self) -> None:
        for step in self.waiting:
            self.stepper.cancel(step)
        self.stepper.close()

    def holds(self, outcome: object) -> None:
        assert isinstance(outcome, Done)
        assert outcome.value.value == [0]
        self.is_held = True

    @rule()
    def lock(self) -> None:
        outcome = self.stepper.begin(self.mutex.__aenter__())
        if self.is_held or self.waiting:
            assert isinstance(outcome, Step)
            self.waiting.append(outcome)
        else:
            self.holds(outcome)

    @rule()
    def unlock(self) -> None:
        if self.is_held:
            self.is_held = False
            assert self.stepper.begin(self.mutex.__aexit__(None, None, None)) == Done()

    @rule()
    def resume(self) -> None:
        if self.waiting and self.waiting[0].is_awake:
            self.holds(self.stepper.resume(self.waiting.pop(0)))

    @rule(pick=st.integers(0, 7))
    def cancel(self, pick: int) -> None:
        if self.waiting:
            self.stepper.cancel(self.waiting.pop(pick % len(self.waiting)))

    @invariant()
    def the_first_is_awake_if_nobody_holds_it(self) -> None:
        expected = [not self.is_held and at == 0 for at in range(len(self.waiting))]
        assert [step.is_awake for step in self.waiting] == expected
        assert self.mutex.locked() == (self.is_held or bool(self.waiting))


@pytest.mark.parametrize("threadsafe", [False, True], ids=["local", "threadsafe"])
def test_mutex_agrees_with_the_model(threadsafe: bool) -> None:
    run_state_machine_as_test(
        lambda: MutexMachine(threadsafe), settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )
