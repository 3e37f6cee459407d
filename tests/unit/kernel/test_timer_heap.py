"""The timer heap: order of firing, cancellation, and how much it may hold."""

import gc
import sys
import weakref
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from loopcore.kernel.handle import TimerHandle
from loopcore.kernel.timers import COMPACT_ABOVE, SORT_FROM, TimerHeap

NEVER = float("inf")

variable: ContextVar[object] = ContextVar("variable")


class Owner:
    """The loop, as far as a TimerHandle sees it."""

    def __init__(self) -> None:
        self.timers = TimerHeap()

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise AssertionError(context)

    def set(self, when: float) -> TimerHandle:
        timer = TimerHandle(when, print, (), self)
        self.timers.push(timer)
        return timer


class TimerHeapMachine(RuleBasedStateMachine):
    """The heap against a list that is sorted whenever it is asked."""

    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.owner = Owner()
        self.heap = self.owner.timers
        self.live: list[TimerHandle] = []

    @rule(target=handles, when=st.integers(0, 20))
    def push(self, when: int) -> TimerHandle:
        timer = self.owner.set(float(when))
        self.live.append(timer)
        return timer

    @rule(count=st.integers(1, 200), when=st.integers(0, 20), keep=st.integers(1, 9))
    def push_many_and_cancel_most(self, count: int, when: int, keep: int) -> None:
        timers = [self.owner.set(when + number % 7) for number in range(count)]
        for number, timer in enumerate(timers):
            if number % keep:
                timer.cancel()
            else:
                self.live.append(timer)

    @rule(count=st.integers(SORT_FROM, 2 * SORT_FROM), step=st.integers(1, 40))
    def push_a_crowd(self, count: int, step: int) -> None:
        self.live += [self.owner.set(float(-number * step % 41 - 10)) for number in range(count)]

    @rule(share=st.integers(2, 5))
    def cancel_a_share_of_all(self, share: int) -> None:
        for timer in self.live[::share]:
            timer.cancel()
        self.live = [timer for timer in self.live if not timer.cancelled()]

    @rule(count=st.integers(2 * COMPACT_ABOVE, SORT_FROM - 1), tenths=st.integers(6, 9))
    def push_many_and_cancel_the_first_of_them_in_the_heap(self, count: int, tenths: int) -> None:
        self.live += [self.owner.set(float(number * 37 % 101)) for number in range(count)]
        self.heap.next_deadline()
        in_order = sorted(self.live, key=TimerHandle.when)
        for timer in in_order[: len(in_order) * tenths // 10]:
            timer.cancel()
        self.live = [timer for timer in self.live if not timer.cancelled()]

    @rule(timer=handles)
    def cancel(self, timer: TimerHandle) -> None:
        timer.cancel()
        self.live = [other for other in self.live if other is not timer]

    @rule(limit=st.integers(0, 30))
    def pop_due(self, limit: int) -> None:
        in_order = sorted(self.live, key=TimerHandle.when)  # stable: equal deadlines in the order of registration
        expected = [timer for timer in in_order if timer.when() < limit]
        due = self.heap.pop_due(limit)
        assert [id(timer) for timer in due] == [id(timer) for timer in expected]
        self.live = [timer for timer in self.live if timer.when() >= limit]
        assert len(self.heap) <= 2 * len(self.live) + COMPACT_ABOVE

    @rule()
    def ask_for_the_next_deadline(self) -> None:
        assert self.heap.next_deadline() == min((timer.when() for timer in self.live), default=NEVER)
        assert len(self.heap) <= 2 * len(self.live) + COMPACT_ABOVE

    @rule()
    def clear(self) -> None:
        self.heap.clear()
        self.live = []

    @invariant()
    def earliest_is_never_later_than_the_first_live_timer(self) -> None:
        assert self.heap.earliest <= min((timer.when() for timer in self.live), default=NEVER)

    @invariant()
    def the_others_are_counted_as_cancelled(self) -> None:
        assert self.heap.cancelled_count == len(self.heap) - len(self.live)


TimerHeapMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestTimerHeapAgainstASortedList = TimerHeapMachine.TestCase


def test_equal_deadlines_fire_in_the_order_they_were_set_also_after_a_rebuild() -> None:
    owner = Owner()
    timers = [owner.set(5.0) for _ in range(300)]
    for timer in timers[::2]:
        timer.cancel()
    timers[1].cancel()  # more than half: rebuilt
    assert owner.timers.next_deadline() == 5.0
    assert len(owner.timers) < 300
    assert [id(timer) for timer in owner.timers.pop_due(6.0)] == [id(timer) for timer in timers[3::2]]


@pytest.mark.parametrize("count", [SORT_FROM // 2, 2 * SORT_FROM])
def test_those_of_one_deadline_fire_in_order_however_many_come_in_together(count: int) -> None:
    owner = Owner()
    timers = []
    for _ in range(3):
        timers += [owner.set(5.0) for _ in range(count)]
        owner.timers.next_deadline()
    timers.append(owner.set(5.0))
    for timer in timers[::3]:
        timer.cancel()
    expected = [timer for timer in timers if not timer.cancelled()]
    assert [id(timer) for timer in owner.timers.pop_due(6.0)] == [id(timer) for timer in expected]


def test_deadlines_of_every_sign_and_size_fire_in_order() -> None:
    owner = Owner()
    sizes = [0.0, -0.0, 5e-324, 1e-9, 1.0, 1e300, NEVER]
    for number in range(2 * SORT_FROM):
        size = sizes[number % len(sizes)]
        owner.set(size * (number + 1) if number % 2 else -size)
    fired = [timer.when() for timer in owner.timers.pop_due(NEVER)]
    assert fired == sorted(fired)
    assert fired[0] == -NEVER
    assert len(fired) + len(owner.timers) == 2 * SORT_FROM


def test_a_crowd_of_which_most_are_cancelled_is_let_go() -> None:
    class Seen:
        def __call__(self) -> None:
            """Nothing: it matters when this goes."""

    owner = Owner()
    callbacks = [Seen() for _ in range(2 * SORT_FROM)]
    gone = [weakref.ref(callback) for callback in callbacks]
    timers = []
    for number, callback in enumerate(callbacks):
        timers.append(TimerHandle(float(number), callback, (), owner))
        owner.timers.push(timers[-1])
    del callback, callbacks
    assert owner.timers.next_deadline() == 0.0
    while len(timers) > 1:
        timers.pop().cancel()
    assert owner.timers.next_deadline() == 0.0
    gc.collect()
    assert [place for place, seen in enumerate(gone) if seen() is not None] == [0]
    assert len(owner.timers) <= COMPACT_ABOVE
    assert owner.timers.pop_due(NEVER) == timers


def test_the_others_fire_in_order_when_the_first_of_many_are_cancelled() -> None:
    owner = Owner()
    timers = [owner.set(float(number * 37 % 101)) for number in range(3 * COMPACT_ABOVE)]
    owner.timers.next_deadline()  # in the heap now, too few for a run
    in_order = sorted(timers, key=TimerHandle.when)
    half = len(in_order) // 2 + 1
    for timer in in_order[:half]:
        timer.cancel()
    assert owner.timers.next_deadline() == in_order[half].when()
    assert owner.timers.pop_due(NEVER) == in_order[half:]


@pytest.mark.parametrize("later", [0.5, 1.5])
def test_a_crowd_and_a_timer_that_was_set_after_it_fire_in_order(later: float) -> None:
    owner = Owner()
    crowd = [owner.set(1.0 + number / SORT_FROM) for number in range(SORT_FROM)]
    owner.timers.next_deadline()  # sorts them
    crowd.append(owner.set(later))
    crowd.sort(key=TimerHandle.when)
    assert owner.timers.pop_due(3.0) == crowd


def test_a_timer_that_is_set_cannot_be_made_again() -> None:
    owner = Owner()
    timer = owner.set(5.0)
    with pytest.raises(RuntimeError, match="is set"):
        timer.__init__(1.0, print, (), owner)  # type: ignore[misc]
    assert owner.timers.pop_due(6.0) == [timer]
    timer.__init__(1.0, print, (), owner)  # type: ignore[misc]
    assert timer.when() == 1.0


def test_a_timer_is_not_due_at_the_limit_itself() -> None:
    owner = Owner()
    timer = owner.set(5.0)
    assert owner.timers.pop_due(5.0) == []
    assert owner.timers.pop_due(5.1) == [timer]


def test_a_timer_that_never_fires_is_not_due_and_not_the_next() -> None:
    owner = Owner()
    owner.set(NEVER)
    assert owner.timers.next_deadline() == NEVER
    assert owner.timers.pop_due(1e300) == []


def test_cancelling_a_timer_that_was_taken_out_is_not_counted() -> None:
    owner = Owner()
    taken = [owner.set(1.0) for _ in range(100)]
    assert len(owner.timers.pop_due(2.0)) == 100
    waiting = [owner.set(3.0) for _ in range(COMPACT_ABOVE + 1)]
    for timer in taken:
        timer.cancel()
    assert len(owner.timers) == len(waiting)
    assert owner.timers.next_deadline() == 3.0


def test_cancelling_twice_counts_once() -> None:
    owner = Owner()
    timers = [owner.set(float(number)) for number in range(100)]
    for _ in range(100):
        timers[0].cancel()
    assert len(owner.timers) - owner.timers.cancelled_count == 99
    assert owner.timers.next_deadline() == 1.0


def test_timers_that_one_callback_sets_and_cancels_are_dropped_before_the_loop_looks() -> None:
    owner = Owner()
    owner.set(1.0)
    for _ in range(100 * COMPACT_ABOVE):
        owner.set(2.0).cancel()
    assert len(owner.timers) <= 4 * COMPACT_ABOVE
    assert len(owner.timers) - owner.timers.cancelled_count == 1
    assert owner.timers.next_deadline() == 1.0


def test_timer_that_is_set_is_refused() -> None:
    owner = Owner()
    timer = owner.set(1.0)
    with pytest.raises(ValueError, match="set already"):
        owner.timers.push(timer)
    assert owner.timers.pop_due(2.0) == [timer]
    owner.timers.push(timer)
    assert len(owner.timers) == 1


def test_what_a_cancelled_timer_drops_may_set_timers() -> None:
    owner = Owner()

    class Sets:
        def __del__(self) -> None:
            owner.set(5.0)

    timers = []
    for number in range(2 * COMPACT_ABOVE):
        context = copy_context()
        context.run(variable.set, Sets())
        timer = TimerHandle(float(number), print, (), owner, context)
        owner.timers.push(timer)
        timers.append(timer)
        del context, timer
    while timers:
        timers.pop().cancel()
    assert owner.timers.next_deadline() == 5.0
    due = owner.timers.pop_due(6.0)
    assert due
    assert {timer.when() for timer in due} == {5.0}
    owner.timers.clear()


def test_what_a_cancelled_timer_drops_may_set_the_first_of_all() -> None:
    owner = Owner()
    set_late = []

    class Sets:
        def __del__(self) -> None:
            set_late.append(owner.set(0.5))

    context = copy_context()
    context.run(variable.set, Sets())
    first, second = TimerHandle(1.0, print, (), owner, context), owner.set(2.0)
    owner.timers.push(first)
    for timer in (first, second):
        timer.cancel()
    del context, first, second, timer
    owner.timers.next_deadline()
    gc.collect()  # where references are not counted
    assert owner.timers.next_deadline() == 0.5
    assert owner.timers.pop_due(3.0) == set_late
    assert owner.timers.cancelled_count == 0


@pytest.fixture
def threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.enable()


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="thresholds are CPython's")
def test_the_collector_may_run_while_the_heap_is_rebuilt(threshold: None) -> None:
    owner = Owner()
    spares: list[TimerHandle] = []
    count_set = 0

    class Sets:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            nonlocal count_set
            count_set += 1
            owner.set(5.0)
            if spares:
                spares.pop().cancel()

    survivors = [owner.set(400.0) for _ in range(COMPACT_ABOVE)]
    for pause in range(400):
        gc.disable()
        timers = [owner.set(10.0 + number) for number in range(150)]
        spares += [owner.set(600.0) for _ in range(5)]
        Sets(), Sets(), Sets()
        spent = [[number] for number in range(90)]  # lists that are kept to be used again are not counted
        gc.set_threshold(gc.get_count()[0] + 1 + pause % 40)
        gc.enable()
        made = []
        for number, timer in enumerate(timers):
            timer.cancel()
            if number % 8 == 0:
                made.append([timer])
        while spares:
            spares.pop().cancel()
        gc.disable()
        gc.collect()
        assert len(owner.timers.pop_due(6.0)) == count_set
        count_set = 0
        del made, spent, timer, timers
    assert [id(timer) for timer in owner.timers.pop_due(NEVER)] == [id(timer) for timer in survivors]
    assert len(owner.timers) == 0


@pytest.mark.skipif(not hasattr(TimerHeap, "_move_reversed"), reason="compiled, nothing runs in between")
def test_timers_set_while_new_ones_are_sifted_in_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Owner()
    timers = [owner.set(2.0), owner.set(1.0)]

    class Interrupted(list[TimerHandle]):
        def append(self, timer: TimerHandle) -> None:
            if len(timers) < 4:
                timers.append(owner.set(5.0 + len(timers)))
            super().append(timer)

    monkeypatch.setattr(owner.timers, "_heap", Interrupted())
    due = owner.timers.pop_due(NEVER) + owner.timers.pop_due(NEVER)
    assert sorted(due, key=TimerHandle.when) == sorted(timers, key=TimerHandle.when)


@pytest.mark.parametrize("count", [1, 2, SORT_FROM])
def test_no_timer_is_lost_when_memory_is_short(count: int) -> None:
    testcapi = pytest.importorskip("_testcapi", reason="this Python has no allocator that fails on demand")
    for number in range(10):
        owner = Owner()
        timers = [owner.set(1.0 + each) for each in range(count)]
        testcapi.set_nomemory(number, 0)
        try:
            owner.timers.next_deadline()
        except MemoryError:
            pass
        finally:
            testcapi.remove_mem_hooks()
        assert sorted(owner.timers.pop_due(NEVER), key=TimerHandle.when) == timers


def test_a_timer_of_another_heap_is_none_of_this_ones_business() -> None:
    owner, other = Owner(), Owner()
    timers = [owner.set(float(number)) for number in range(3)]
    other.timers.note_cancelled(timers[2])
    assert (len(other.timers), other.timers.cancelled_count) == (0, 0)
    assert owner.timers.pop_due(6.0) == timers


@pytest.mark.loopcore_only
def test_nan_and_what_is_no_number_are_refused_as_deadlines(loop: Any) -> None:
    with pytest.raises(ValueError, match="NaN"):
        loop.call_later(float("nan"), print)
    with pytest.raises(TypeError):
        loop.call_at("soon", print)
    assert loop._timers.next_deadline() == float("inf")


@pytest.mark.skipif(not hasattr(TimerHeap, "_move_reversed"), reason="compiled, nothing runs in between")
def test_a_timer_that_a_finalizer_sets_while_cancelled_ones_are_dropped_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = Owner()
    kept = [owner.set(1.0)]
    while len(owner.timers._new) < owner.timers._new_limit:
        timer = owner.set(2.0)
        timer._cancelled = True
        owner.timers.note_cancelled(timer)

    def live_of(timers: list[TimerHandle]) -> list[TimerHandle]:
        if len(kept) == 1:
            kept.append(owner.set(3.0))
        return [timer for timer in timers if not timer.cancelled()]

    monkeypatch.setattr("loopcore.kernel.timers.live_of", live_of)
    kept.append(owner.set(4.0))
    assert owner.timers.pop_due(NEVER) == kept
    assert owner.timers.cancelled_count == 0
