"""The inbox: callbacks of other threads. One wake a batch, and none lost."""

import threading
from collections import deque
from typing import Any

import pytest

from loopcore.kernel import inbox as inbox_module
from loopcore.kernel.handle import Handle
from loopcore.kernel.inbox import Inbox
from loopcore.kernel.limits import POSTS_BEFORE_YIELD, YIELD_SECONDS
from loopcore.kernel.own_tasks import OwnTasks
from loopcore.kernel.ready import ReadyQueue
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.scheduler import Scheduler
from loopcore.testing import ScriptedBackend, VirtualClock

compiled = not inbox_module.__file__.endswith(".py")
needs_python = pytest.mark.skipif(compiled, reason="looks inside the interpreted inbox; compiled it cannot be")


class Quiet:
    def get_debug(self) -> bool:
        return False


def handle() -> Handle:
    return Handle(print, (), Quiet())  # type: ignore[arg-type]


def take(inbox: Inbox) -> list[Runnable]:
    ready = ReadyQueue()
    inbox.drain_into(ready)
    return ready.take()


def use_queue(inbox: Inbox, queue: "deque[Any]") -> None:
    inbox._handles, inbox._append, inbox._popleft = queue, queue.append, queue.popleft


def test_a_batch_wakes_once_and_keeps_its_order() -> None:
    woken: list[int] = []
    inbox = Inbox(lambda: woken.append(1))
    handles = [handle() for _ in range(5)]
    for one in handles:
        inbox.post(one, running=False)
    assert len(inbox) == 5
    assert woken == [1]
    assert take(inbox) == handles
    assert len(inbox) == 0


def test_what_is_poured_out_is_ready_in_order_and_the_next_one_wakes_again() -> None:
    inbox, ready = Inbox(lambda: None), ReadyQueue()
    handles = [handle() for _ in range(5)]
    for one in handles:
        inbox.post(one, running=False)
    assert inbox.drain_into(ready) == 5
    assert inbox.drain_into(ready) == 0
    assert ready.take() == handles
    inbox.post(handles[0], running=False)
    assert inbox.wakes == 2


@needs_python
def test_a_loop_does_not_wait_while_the_flag_is_up() -> None:
    """An interrupted wait may have used up the wake."""
    backend = ScriptedBackend(VirtualClock())
    scheduler = Scheduler(backend, clock=backend.clock, tasks=OwnTasks())
    scheduler._inbox.post(handle(), running=False)
    scheduler.tick()
    assert backend.timeouts in ([], [0.0])
    assert not scheduler._inbox._woken
    scheduler._close_scheduler()


@pytest.mark.parametrize("running", [True, False])
def test_a_thread_gives_way_to_a_loop_that_runs_after_so_many_it_has_not_heard_of(
    running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(inbox_module, "sleep", slept.append)
    inbox, one = Inbox(lambda: None), handle()
    for _ in range(2):
        for _ in range(POSTS_BEFORE_YIELD - 1):
            inbox.post(one, running)
        assert not slept
        take(inbox)  # the loop has seen them: the count starts again
    for times in range(1, 4):
        for _ in range(POSTS_BEFORE_YIELD):
            inbox.post(one, running)
        assert slept == [YIELD_SECONDS] * times * running


def test_a_wake_that_is_interrupted_is_made_all_the_same() -> None:
    woken = []

    def wake() -> None:
        woken.append(1)
        if len(woken) == 1:
            raise KeyboardInterrupt

    inbox = Inbox(wake)
    with pytest.raises(KeyboardInterrupt):
        inbox.post(handle(), running=False)
    assert (len(woken), len(inbox)) == (2, 1)


@needs_python
def test_what_an_interrupt_leaves_in_the_inbox_is_looked_for() -> None:
    class Interrupted(deque[Any]):
        def popleft(self) -> Any:
            if len(self) == 1:
                raise KeyboardInterrupt
            return deque.popleft(self)

    inbox = Inbox(list)
    use_queue(inbox, Interrupted())
    for _ in range(2):
        inbox.post(handle(), running=False)
    ready = ReadyQueue()
    with pytest.raises(KeyboardInterrupt):
        inbox.drain_into(ready)
    assert (len(ready), len(inbox), inbox._woken) == (1, 1, True)


@needs_python
def test_a_callback_for_which_there_is_no_memory_stays_the_first() -> None:
    class Full(ReadyQueue):
        def push(self, runnable: Runnable) -> None:
            if len(self) == 1:
                raise MemoryError
            ReadyQueue.push(self, runnable)

    inbox, ready = Inbox(list), Full()
    first, second, third = handle(), handle(), handle()
    for one in (first, second, third):
        inbox.post(one, running=False)
    with pytest.raises(MemoryError):
        inbox.drain_into(ready)
    assert (ready.take(), take(inbox)) == ([first], [second, third])


def test_what_is_left_in_the_inbox_when_the_backend_changes_is_still_run() -> None:
    """The child of a fork: nobody will wake it for what was posted before."""
    reactor = Scheduler(ScriptedBackend(), tasks=OwnTasks())
    ran: list[int] = []
    reactor._inbox.post(Handle(ran.append, (1,), reactor), running=False)
    reactor._inbox.use(lambda: None)
    reactor.tick()
    assert ran == [1]


def test_after_a_batch_was_taken_the_next_one_wakes_again() -> None:
    inbox = Inbox(lambda: None)
    for batches in range(1, 4):
        inbox.post(handle(), running=False)
        inbox.post(handle(), running=False)
        assert inbox.wakes == batches
        assert len(take(inbox)) == 2


def test_interrupt_wakes_and_leaves_nothing() -> None:
    woken: list[int] = []
    inbox = Inbox(lambda: woken.append(1))
    inbox.interrupt()
    assert woken == [1]
    assert take(inbox) == []


def test_many_threads_post_and_every_handle_comes_out_once_in_the_order_of_its_thread() -> None:
    per_thread = 2000
    ready = threading.Event()
    inbox = Inbox(ready.set)
    origin: dict[int, tuple[int, int]] = {}
    batches = [[handle() for _ in range(per_thread)] for _ in range(4)]
    for writer, batch in enumerate(batches):
        for number, one in enumerate(batch):
            origin[id(one)] = (writer, number)

    def write(batch: list[Handle]) -> None:
        for one in batch:
            inbox.post(one, running=False)

    threads = [threading.Thread(target=write, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    taken: list[Handle] = []
    while len(taken) < 4 * per_thread:
        assert ready.wait(10), "a wake was lost"
        ready.clear()
        taken += take(inbox)
    for thread in threads:
        thread.join()
    seen = [origin[id(one)] for one in taken]
    assert sorted(seen) == sorted(origin.values())
    for writer in range(4):
        numbers = [number for who, number in seen if who == writer]
        assert numbers == sorted(numbers)


@needs_python
def test_a_handle_that_is_taken_before_its_writer_raises_the_flag_does_not_silence_later_ones() -> None:
    """The race: append, [loop takes it], flag up. The flag then stands over an empty inbox."""
    backend = ScriptedBackend()
    reactor = Scheduler(backend, tasks=OwnTasks())
    ran: list[str] = []

    class Overtaken(deque[Any]):
        def append(self, one: Any) -> None:
            super().append(one)
            if not ran:
                ran.append("overtaken")
                take(reactor._inbox)

    use_queue(reactor._inbox, Overtaken())
    reactor._inbox.post(Handle(print, (), reactor), running=False)
    assert len(reactor._inbox) == 0
    assert backend.wakes == 1
    reactor.tick()  # the wait that the wake ends; it must lower the flag, though there is nothing to take
    reactor._inbox.post(Handle(ran.append, ("later",), reactor), running=False)
    assert backend.wakes == 2
    reactor.tick()
    assert ran == ["overtaken", "later"]


@needs_python
def test_what_comes_in_while_the_inbox_is_emptied_wakes_again() -> None:
    inbox = Inbox(lambda: None)
    late = handle()

    class Interrupted(deque[Any]):
        def popleft(self) -> Any:
            first = super().popleft()
            if first is not late:
                inbox.post(late, running=False)
            return first

    use_queue(inbox, Interrupted())
    inbox.post(handle(), running=False)
    assert len(take(inbox)) == 1
    assert inbox.wakes == 2
    assert take(inbox) == [late]


@pytest.mark.loopcore_only
def test_one_take_of_the_inbox_ends_although_others_go_on_posting(loop: Any) -> None:
    inbox = Inbox(lambda: None)
    for _ in range(3):
        inbox.post(Handle(print, (), loop), running=False)
    assert len(take(inbox)) == 3
    stopped = threading.Event()

    def flood() -> None:
        while not stopped.is_set():
            loop.call_soon_threadsafe(int)

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        loop.call_later(0.01, loop.stop)
        loop.run_forever()
    finally:
        stopped.set()
        flooding.join()
