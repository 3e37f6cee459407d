"""The ready queue: first in, first out, whatever size it had in between."""

import gc
import signal
from collections import deque
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from loopcore.kernel import ready as ready_module
from loopcore.kernel.handle import Handle
from loopcore.kernel.ready import LARGE_RING, SMALL_RING, ReadyQueue
from loopcore.kernel.runnable import Runnable

compiled = not ready_module.__file__.endswith(".py")


class Quiet:
    def get_debug(self) -> bool:
        return False


class Numbered(Runnable):
    def __init__(self, number: int) -> None:
        self.number = number


class ReadyQueueMachine(RuleBasedStateMachine):
    """The queue against a deque."""

    make: Any = ReadyQueue

    def __init__(self) -> None:
        super().__init__()
        self.queue = self.make()
        self.model: deque[Runnable] = deque()

    @rule(count=st.integers(1, SMALL_RING + 10))
    def push(self, count: int) -> None:
        for number in range(count):
            runnable = Numbered(number)
            self.queue.push(runnable)
            self.model.append(runnable)

    @rule(count=st.integers(1, SMALL_RING + 10))
    def pop(self, count: int) -> None:
        for _ in range(count):
            assert self.queue.pop() is (self.model.popleft() if self.model else None)

    @rule()
    def clear(self) -> None:
        self.queue.clear()
        self.model.clear()

    @invariant()
    def same_length(self) -> None:
        assert len(self.queue) == len(self.model)

    def teardown(self) -> None:
        assert [self.queue.pop() for _ in self.model] == list(self.model)


ReadyQueueMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestReadyQueueAgainstADeque = ReadyQueueMachine.TestCase


def test_a_burst_keeps_its_order_and_its_ring_is_given_back() -> None:
    queue = ReadyQueue()
    burst = [Numbered(number) for number in range(LARGE_RING + 1)]
    for runnable in burst:
        queue.push(runnable)
    for runnable in burst:
        assert queue.pop() is runnable
    assert queue.pop() is None
    if not compiled:
        assert len(queue._ring) == SMALL_RING


def test_what_was_popped_is_not_kept_alive() -> None:
    queue = ReadyQueue()
    freed: list[int] = []

    class Watched(Runnable):
        def __del__(self) -> None:
            freed.append(1)

    queue.push(Watched())
    queue.pop()
    gc.collect()
    assert freed == [1]


def test_a_handle_that_is_dropped_is_cancelled() -> None:
    queue = ReadyQueue()
    handles = [Handle(print, (), Quiet()) for _ in range(3)]  # type: ignore[arg-type]
    for handle in handles:
        queue.push(handle)
    queue.clear()
    assert [handle.cancelled() for handle in handles] == [True] * 3
    assert len(queue) == 0


def test_a_finalizer_that_pushes_while_the_ring_grows_loses_nothing() -> None:
    """The collector may run between any two steps of `push`; what it finalizes may call `call_soon`."""
    queue = ReadyQueue()
    pushed: list[Runnable] = []

    class Cycle:
        def __init__(self, number: int) -> None:
            self.me = self
            self.number = number

        def __del__(self) -> None:
            runnable = Numbered(self.number)
            queue.push(runnable)
            pushed.append(runnable)

    before = gc.get_threshold()
    gc.set_threshold(3)
    try:
        for number in range(3000):
            Cycle(number)
            runnable = Numbered(-1)
            queue.push(runnable)
            pushed.append(runnable)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert len(queue) == len(pushed)
    assert {id(queue.pop()) for _ in pushed} == set(map(id, pushed))
    assert queue.pop() is None


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_a_signal_handler_that_pushes_in_the_middle_of_a_push_loses_nothing() -> None:
    queue = ReadyQueue()
    pushed, popped = [0], [0]
    runnable = Numbered(0)

    def handler(*args: Any) -> None:
        queue.push(runnable)
        pushed[0] += 1

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 2e-4, 2e-4)
    try:
        for _ in range(20_000):
            for _ in range(3):
                queue.push(runnable)
            for _ in range(3):
                popped[0] += queue.pop() is not None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    while queue.pop() is not None:
        popped[0] += 1
    assert popped[0] == pushed[0] + 60_000


def test_a_finalizer_that_pops_while_the_ring_grows_spoils_no_order() -> None:
    """As a loop may, whose thread has the GIL while another grows its ring."""
    queue = ReadyQueue()
    pushed: list[Runnable] = []
    popped: list[Runnable | None] = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            popped.append(queue.pop())

    before = gc.get_threshold()
    gc.set_threshold(3)
    try:
        for number in range(3000):
            if number % 8 == 0:
                Cycle()
            runnable = Numbered(number)
            pushed.append(runnable)
            queue.push(runnable)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    taken = [runnable for runnable in popped if runnable is not None]
    taken += queue.take()
    assert [id(runnable) for runnable in taken] == [id(runnable) for runnable in pushed]


class Pushing(Runnable):
    """Pushes something else while it is destroyed, as a task does whose coroutine is closed."""

    def __init__(self, queue: ReadyQueue) -> None:
        self.queue = queue

    def __del__(self) -> None:
        self.queue.push(Runnable())


def test_a_large_ring_may_be_pushed_to_while_it_is_cleared() -> None:
    queue = ReadyQueue()
    for _ in range(200):
        queue.push(Pushing(queue))
    queue.clear()
    assert len(queue) == 0
    queue.push(Runnable())
    assert len(queue) == 1
