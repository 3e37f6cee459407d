"""broadcast against a naive model: each receiver has a list of its own, of all that was sent since it subscribed."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from loopcore.sync import Closed, Empty, Full, Lagged, broadcast
from tests.unit.sync.stepping import Done, Step, Stepper

picks = st.integers(0, 11)


@dataclass(eq=False)
class Listener:
    """A receiver, and what it has to see."""

    receiver: broadcast.Receiver[int]
    unseen: list[int] = field(default_factory=list)
    missed: int = 0
    missed_in_all: int = 0
    waiting: list[Step] = field(default_factory=list)


class BroadcastMachine(RuleBasedStateMachine):
    def __init__(self, capacity: int, overflow: broadcast.Overflow, threadsafe: bool) -> None:
        super().__init__()
        self.stepper = Stepper()
        self.capacity = capacity
        self.overflow = overflow
        self.sender, receiver = broadcast.Channel[int](capacity, overflow=overflow, threadsafe=threadsafe)
        self.listeners = [Listener(receiver)]
        self.senders: list[Step] = []
        self.sent = 0
        self.dropped = 0
        self.is_open = True

    def teardown(self) -> None:
        for step in [*self.senders, *(step for listener in self.listeners for step in listener.waiting)]:
            self.stepper.cancel(step)
        self.stepper.close()

    def room(self) -> int:
        return self.capacity - max((len(listener.unseen) for listener in self.listeners), default=0)

    def pick(self, pick: int) -> Listener | None:
        return self.listeners[pick % len(self.listeners)] if self.listeners else None

    def next_value(self) -> int:
        self.sent += 1
        return self.sent

    def deliver(self, value: int) -> int:
        """What a send does that need not wait."""
        if self.overflow == "drop_new" and self.listeners and not self.room():
            self.dropped += 1
            return 0
        for listener in self.listeners:
            listener.unseen.append(value)
            while len(listener.unseen) > self.capacity:
                listener.unseen.pop(0)
                listener.missed += 1
        return len(self.listeners)

    def must_wait(self) -> bool:
        return self.overflow == "wait" and bool(self.listeners) and self.room() <= len(self.senders)

    @rule()
    def send(self) -> None:
        value = self.next_value()
        if self.is_open:
            outcome = self.stepper.begin(self.sender.send(value), value)
            if self.must_wait():
                self.senders.append(outcome)
            else:
                assert outcome == Done(self.deliver(value))

    @rule()
    def try_send(self) -> None:
        value = self.next_value()
        if not self.is_open or self.must_wait():
            with pytest.raises(Full if self.is_open else Closed):
                self.sender.try_send(value)
        else:
            assert self.sender.try_send(value) == self.deliver(value)

    @rule(pick=picks)
    def resume_sender(self, pick: int) -> None:
        awake = [step for step in self.senders if step.is_awake]
        if awake:
            step = awake[pick % len(awake)]
            self.senders.remove(step)
            outcome = self.stepper.resume(step)
            if self.is_open:
                assert outcome == Done(self.deliver(step.argument))
            else:
                assert isinstance(outcome.error, Closed)

    @rule(pick=picks)
    def cancel_sender(self, pick: int) -> None:
        if self.senders:
            self.stepper.cancel(self.senders.pop(pick % len(self.senders)))

    def expect(self, listener: Listener, outcome: Step | Done) -> None:
        """Check what an attempt to receive came to."""
        if listener.missed:
            assert isinstance(outcome, Done)
            assert isinstance(outcome.error, Lagged)
            assert outcome.error.missed == listener.missed
            listener.missed_in_all += listener.missed
            listener.missed = 0
        elif listener.unseen:
            assert outcome == Done(listener.unseen.pop(0))
        elif self.is_open:
            assert isinstance(outcome, Step)
            listener.waiting.append(outcome)
        else:
            assert isinstance(outcome, Done)
            assert isinstance(outcome.error, Closed)

    @rule(pick=picks)
    def recv(self, pick: int) -> None:
        listener = self.pick(pick)
        if listener is not None:
            self.expect(listener, self.stepper.begin(listener.receiver.recv()))

    @rule(pick=picks)
    def try_recv(self, pick: int) -> None:
        listener = self.pick(pick)
        if listener is not None:
            try:
                outcome = Done(listener.receiver.try_recv())
            except Empty:
                assert self.is_open
                assert not listener.unseen
                assert not listener.missed
            except (Closed, Lagged) as error:
                self.expect(listener, Done(error=error))
            else:
                self.expect(listener, outcome)

    @rule(pick=picks, another=picks)
    def resume_receiver(self, pick: int, another: int) -> None:
        awake = [(listener, step) for listener in self.listeners for step in listener.waiting if step.is_awake]
        if awake:
            listener, step = awake[pick % len(awake)]
            listener.waiting.remove(step)
            self.expect(listener, self.stepper.resume(step))

    @rule(pick=picks, another=picks)
    def cancel_receiver(self, pick: int, another: int) -> None:
        listener = self.pick(pick)
        if listener is not None and listener.waiting:
            self.stepper.cancel(listener.waiting.pop(another % len(listener.waiting)))

    @rule()
    def subscribe(self) -> None:
        if self.is_open:
            self.listeners.append(Listener(self.sender.subscribe()))

    @rule(pick=picks)
    def leave(self, pick: int) -> None:
        listener = self.pick(pick)
        if listener is not None:
            self.listeners.remove(listener)
            listener.receiver.close()
            for step in listener.waiting:
                outcome = self.stepper.resume(step)
                assert isinstance(outcome, Done)
                assert isinstance(outcome.error, Closed)
            with pytest.raises(Closed):
                listener.receiver.try_recv()

    @rule(really=st.integers(0, 5))
    def close(self, really: int) -> None:
        if really == 0:
            self.sender.close()
            self.is_open = False

    @invariant()
    def those_who_can_go_on_are_awake(self) -> None:
        room = self.room() if self.is_open else len(self.senders)
        assert [step.is_awake for step in self.senders] == [at < room for at in range(len(self.senders))]
        for listener in self.listeners:
            if listener.unseen or listener.missed or not self.is_open:
                assert all(step.is_awake for step in listener.waiting)
            assert len(listener.receiver) == len(listener.unseen)
            assert listener.receiver.missed == listener.missed_in_all
        assert self.sender.receivers == len(self.listeners)
        assert self.sender.dropped == self.dropped

    @invariant()
    def what_everybody_saw_is_forgotten(self) -> None:
        kept = [value for value in self.sender._ring._values if value is not None]
        assert sorted(kept) == sorted({value for listener in self.listeners for value in listener.unseen})


@pytest.mark.parametrize("threadsafe", [False, True], ids=["local", "threadsafe"])
@pytest.mark.parametrize("overflow", ["lag", "wait", "drop_new"])
@pytest.mark.parametrize("capacity", [1, 3])
def test_broadcast_agrees_with_the_model(capacity: int, overflow: broadcast.Overflow, threadsafe: bool) -> None:
    run_state_machine_as_test(
        lambda: BroadcastMachine(capacity, overflow, threadsafe),
        settings=settings(max_examples=60, stateful_step_count=50, deadline=None),
    )
