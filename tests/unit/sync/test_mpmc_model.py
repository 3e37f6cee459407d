"""mpmc against a naive model: a list of values, a list of senders and one of receivers, in order of their calls.

The model's law: of those that wait to receive, as many are awake as there are values, the first ones; of those that
wait to send, as many as there is room. Whatever is done, in whatever order, that must hold; it is what "first come,
first served, and no wake-up lost" means.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from loopcore.sync import Closed, Empty, Full, mpmc
from tests.unit.sync.stepping import Done, Step, Stepper

picks = st.integers(0, 11)


class MpmcMachine(RuleBasedStateMachine):
    def __init__(self, capacity: int, threadsafe: bool) -> None:
        super().__init__()
        self.stepper = Stepper()
        self.capacity = capacity
        self.sender, self.receiver = mpmc.Channel[int](capacity, threadsafe=threadsafe)
        self.values: list[int] = []
        self.senders: list[Step] = []
        self.receivers: list[Step] = []
        self.sent = 0
        self.is_open = True

    def teardown(self) -> None:
        for step in [*self.senders, *self.receivers]:
            self.stepper.cancel(step)
        self.stepper.close()

    def next_value(self) -> int:
        self.sent += 1
        return self.sent

    @rule()
    def send(self) -> None:
        value = self.next_value()
        if not self.sender.closed:
            outcome = self.stepper.begin(self.sender.send(value), value)
            if self.is_open and self.capacity - len(self.values) > len(self.senders):
                self.values.append(value)
                assert outcome == Done()
            elif self.is_open:
                self.senders.append(outcome)
            else:
                assert isinstance(outcome.error, Closed)

    @rule()
    def try_send(self) -> None:
        value = self.next_value()
        if not self.is_open:
            with pytest.raises(Closed):
                self.sender.try_send(value)
        elif self.capacity - len(self.values) > len(self.senders):
            self.sender.try_send(value)
            self.values.append(value)
        else:
            with pytest.raises(Full):
                self.sender.try_send(value)

    @rule()
    def recv(self) -> None:
        if self.receiver.closed:
            with pytest.raises(Closed):
                self.receiver.recv()
            return
        outcome = self.stepper.begin(self.receiver.recv())
        if len(self.values) > len(self.receivers):
            assert outcome == Done(self.values.pop(0))
        elif self.is_open or self.values:
            self.receivers.append(outcome)
        else:
            assert isinstance(outcome.error, Closed)

    @rule()
    def try_recv(self) -> None:
        if self.receiver.closed:
            with pytest.raises(Closed):
                self.receiver.try_recv()
        elif len(self.values) > len(self.receivers):
            assert self.receiver.try_recv() == self.values.pop(0)
        else:
            with pytest.raises(Empty if self.is_open or self.values else Closed):
                self.receiver.try_recv()

    @rule(pick=picks)
    def resume_sender(self, pick: int) -> None:
        awake = [step for step in self.senders if step.is_awake]
        if awake:
            step = awake[pick % len(awake)]
            outcome = self.stepper.resume(step)
            self.senders.remove(step)
            if self.is_open:
                assert outcome == Done()
                self.values.append(step.argument)
            else:
                assert isinstance(outcome.error, Closed)

    @rule(pick=picks)
    def resume_receiver(self, pick: int) -> None:
        awake = [step for step in self.receivers if step.is_awake]
        if awake:
            step = awake[pick % len(awake)]
            outcome = self.stepper.resume(step)
            self.receivers.remove(step)
            if self.values:
                assert outcome == Done(self.values.pop(0))
            else:
                assert isinstance(outcome.error, Closed)

    @rule(pick=picks)
    def cancel_sender(self, pick: int) -> None:
        if self.senders:
            self.stepper.cancel(self.senders.pop(pick % len(self.senders)))

    @rule(pick=picks)
    def cancel_receiver(self, pick: int) -> None:
        if self.receivers:
            self.stepper.cancel(self.receivers.pop(pick % len(self.receivers)))

    @rule(which=st.sampled_from(["sender", "receiver"]), really=st.integers(0, 3))
    def close(self, which: str, really: int) -> None:
        if really == 0:  # seldom: what is closed has little more to show
            getattr(self, which).close()
            self.is_open = False

    @invariant()
    def those_who_can_go_on_are_awake(self) -> None:
        room = self.capacity - len(self.values)
        may_send = len(self.senders) if not self.is_open else room
        may_receive = len(self.receivers) if not self.is_open and not self.values else len(self.values)
        assert [step.is_awake for step in self.senders] == [at < may_send for at in range(len(self.senders))]
        assert [step.is_awake for step in self.receivers] == [at < may_receive for at in range(len(self.receivers))]
        assert len(self.receiver) == len(self.values) <= self.capacity


@pytest.mark.parametrize("threadsafe", [False, True], ids=["local", "threadsafe"])
@pytest.mark.parametrize("capacity", [1, 3])
def test_mpmc_agrees_with_the_model(capacity: int, threadsafe: bool) -> None:
    run_state_machine_as_test(
        lambda: MpmcMachine(capacity, threadsafe),
        settings=settings(max_examples=60, stateful_step_count=50, deadline=None),
    )
