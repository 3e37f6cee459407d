"""Observers: the events that are reported to them, their order, and that observers come and go."""

import asyncio
import contextlib
import socket
import threading
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore.hooks import observer
from loopcore.hooks.observer import Observer
from loopcore.hooks.sources import FLUSH, IMMEDIATE, SOON, SOURCES, TASK, THREADSAFE, TIMER
from loopcore.kernel.running import CallbackRunner

NAMES = {
    getattr(observer, name): name
    for name in ("WAIT_BEGINS", "WAIT_ENDS", "TICK_BEGINS", "TICK_ENDS", "QUEUED", "BEGINS", "ENDS", "DUE", "POSTED")
}


class Notes(Observer):
    def __init__(self, wants: int = observer.ALL) -> None:
        super().__init__(wants)
        self.notes: list[tuple[str, Any, int]] = []

    @loopcore.hookimpl
    def loopcore_make_observer(self) -> "Notes":
        return self

    def note(self, event: int, what: Any, number: int) -> None:
        self.notes.append((NAMES[event], what, number))

    def of(self, *names: str) -> list[tuple[str, Any, int]]:
        return [note for note in self.notes if note[0] in names]


@pytest.fixture
def loop() -> Any:
    made = loopcore.new_event_loop()
    yield made
    made.close()


def run(loop: Any) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()


def test_a_callback_is_queued_begins_and_ends(loop: Any) -> None:
    notes = Notes(observer.QUEUED | observer.BEGINS | observer.ENDS)
    loop.probes.register(notes)
    ran: list[int] = []
    handle = loop.call_soon(lambda: ran.append(len(notes.notes)))
    run(loop)
    about = [note for note in notes.notes if note[1] is handle]
    assert about == [("QUEUED", handle, SOON), ("BEGINS", handle, SOON), ("ENDS", handle, SOON)]
    assert notes.notes[ran[0]] == ("ENDS", handle, SOON)  # nothing came between its begin and its end


def test_each_step_of_a_task_is_queued_and_begins(loop: Any) -> None:
    notes = Notes(observer.QUEUED | observer.BEGINS)
    loop.probes.register(notes)

    async def main() -> None:
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    steps = [(name, number) for name, what, number in notes.notes if hasattr(what, "get_coro")]
    assert steps == [("QUEUED", TASK), ("BEGINS", TASK)] * 2


def test_sources_of_timers_immediates_and_posts(loop: Any) -> None:
    notes = Notes()
    loop.probes.register(notes)
    immediate = loop.call_immediate(int)
    timer = loop.call_later(0, int)
    loop.call_later(0.001, loop.stop)
    posted: list[Any] = []
    thread = threading.Thread(target=lambda: posted.append(loop.call_soon_threadsafe(int)))
    thread.start()
    thread.join()
    loop.run_forever()
    begun = {id(what): number for _, what, number in notes.of("BEGINS")}
    assert begun[id(immediate)] == IMMEDIATE
    assert begun[id(timer)] == TIMER
    assert notes.of("DUE")[0][1] is timer
    assert all(late >= 0 for _, _, late in notes.of("DUE"))
    assert ("POSTED", posted[0], 0) in notes.notes
    assert ("QUEUED", posted[0], THREADSAFE) in notes.notes
    assert set(begun.values()) <= set(range(len(SOURCES)))


def test_a_send_in_answer_to_received_bytes_begins_as_others_do(loop: Any) -> None:
    class Echo(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

    notes = Notes(observer.BEGINS)

    async def main() -> Any:
        near, far = socket.socketpair()
        with far:
            far.setblocking(False)
            transport, _ = await loop.create_connection(Echo, sock=near)
            loop.probes.register(notes)
            await loop.sock_sendall(far, b"x")
            assert await loop.sock_recv(far, 1) == b"x"
            transport.close()
        return transport

    transport = loop.run_until_complete(main())
    assert ("BEGINS", transport, FLUSH) in notes.notes


def test_waits_and_ticks_alternate(loop: Any) -> None:
    notes = Notes()
    loop.probes.register(notes)
    loop.call_later(0.1, loop.stop)  # still ahead when the loop begins to wait
    loop.run_forever()
    order = [name for name, _, _ in notes.of("WAIT_BEGINS", "WAIT_ENDS", "TICK_BEGINS", "TICK_ENDS")]
    assert order[:4] == ["WAIT_BEGINS", "WAIT_ENDS", "TICK_BEGINS", "TICK_ENDS"]
    assert order == order[:4] * (len(order) // 4)
    assert notes.of("WAIT_BEGINS")[0][2] == 1


def test_an_observer_receives_only_what_it_wants(loop: Any) -> None:
    everything, ends = Notes(), Notes(observer.ENDS)
    loop.probes.register(everything)
    loop.probes.register(ends)
    run(loop)
    assert {name for name, _, _ in ends.notes} == {"ENDS"}
    assert len(everything.notes) > len(ends.notes) == len(everything.of("ENDS"))


def test_an_observer_that_raises_is_removed_and_the_loop_goes_on(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Notes):
        def note(self, event: int, what: Any, number: int) -> None:
            raise ZeroDivisionError

    loop.probes.register(Broken(), "broken")
    ran: list[int] = []
    loop.call_soon(ran.append, 1)
    run(loop)
    assert ran == [1]
    assert loop.probes.failures == {"broken": 1}
    assert "taken out of the loop" in caplog.text


def test_an_observer_whose_tell_raises_is_removed_as_well(loop: Any) -> None:
    class Broken(Notes):
        def tell(self, event: int, what: Any, number: int) -> None:
            raise ZeroDivisionError

        def note(self, event: int, what: Any, number: int) -> None:
            self.tell(event, what, number)

    loop.probes.register(Broken(), "broken")
    run(loop)
    assert loop.probes.failures == {"broken": 1}


def test_an_observer_that_wants_no_number_is_not_used(loop: Any) -> None:
    class Mistaken(Observer):
        def __init__(self) -> None:
            super().__init__("all")  # type: ignore[arg-type]

    class Maker:
        @loopcore.hookimpl
        def loopcore_make_observer(self) -> Any:
            return Mistaken()

    with contextlib.suppress(UsageError):  # compiled, Observer.__init__ raises TypeError, and the plugin is removed
        loop.probes.register(Maker())
    assert loop.probes.plugins() == []


def test_an_observer_that_notes_in_a_coroutine_is_refused(loop: Any) -> None:
    class Mistaken(Notes):
        async def note(self, event: int, what: Any, number: int) -> None:  # type: ignore[override]
            raise AssertionError("never runs")

    with pytest.raises(UsageError, match="`async`"):
        loop.probes.register(Mistaken())
    assert loop.probes.plugins() == []


def test_a_plugin_that_makes_anything_else_is_refused(loop: Any) -> None:
    class Mistaken:
        @loopcore.hookimpl
        def loopcore_make_observer(self) -> Any:
            return []

    with pytest.raises(UsageError, match=r"not a loopcore\.hooks\.observer\.Observer"):
        loop.probes.register(Mistaken())
    assert loop.probes.plugins() == []


def test_a_plugin_whose_observer_cannot_be_made_is_removed(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Cancelled:
        @loopcore.hookimpl
        def loopcore_make_observer(self) -> Any:
            raise asyncio.CancelledError

    loop.probes.register(Cancelled())
    assert loop.probes.failures == {"Cancelled": 1}
    assert "loopcore_make_observer" in caplog.text
    loop.probes.register(Notes())
    assert [name for name, _ in loop.probes.plugins()] == ["Notes"]


def test_a_plugin_that_exits_while_its_observer_is_made_is_removed(loop: Any) -> None:
    class Exit:
        @loopcore.hookimpl
        def loopcore_make_observer(self) -> Any:
            raise SystemExit

    with pytest.raises(SystemExit):
        loop.probes.register(Exit())
    assert loop.probes.plugins() == []


def test_without_observers_the_loop_runs_what_it_ran_before(loop: Any) -> None:
    before = type(loop._runner) if hasattr(loop, "_runner") else None  # compiled, it cannot be seen
    notes = Notes()
    loop.probes.register(notes)
    run(loop)
    loop.probes.unregister(notes)
    seen = len(notes.notes)
    run(loop)
    assert len(notes.notes) == seen
    if before is not None:
        assert type(loop._runner) is before is CallbackRunner


def test_an_observer_may_come_and_go_in_a_callback(loop: Any) -> None:
    notes = Notes(observer.BEGINS | observer.ENDS)
    loop.call_soon(loop.probes.register, notes)
    loop.call_soon(int)
    loop.call_soon(loop.probes.unregister, notes)
    run(loop)
    names = [name for name, _, _ in notes.notes]
    assert names in (["BEGINS", "ENDS", "BEGINS"], ["ENDS", "BEGINS", "ENDS", "BEGINS"])


def test_a_meter_and_an_observer_share_a_loop(loop: Any) -> None:
    notes = Notes()
    loop.probes.register(notes)
    with loop.meter(window=0) as meter:
        loop.call_soon(int)
        run(loop)
        measured = meter.snapshot()
    assert measured.run_time["soon"].count == len([1 for _, _, source in notes.of("ENDS") if source == SOON])


def test_what_is_queued_is_not_lost_if_a_signal_handler_raises_in_an_observer(loop: Any) -> None:
    class Interrupted(Notes):
        def note(self, event: int, what: Any, number: int) -> None:
            raise KeyboardInterrupt

    notes = Interrupted(observer.QUEUED)
    loop.probes.register(notes)
    ran: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        loop.call_soon(ran.append, 1)
    loop.probes.unregister(notes)
    run(loop)
    assert ran == [1]


def test_what_is_about_to_run_is_not_lost_either(loop: Any) -> None:
    class Interrupted(Notes):
        def note(self, event: int, what: Any, number: int) -> None:
            if number == SOON:
                loop.probes.unregister(self)
                raise KeyboardInterrupt

    loop.probes.register(Interrupted(observer.BEGINS))
    ran: list[int] = []
    loop.call_soon(ran.append, 1)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    run(loop)
    assert ran == [1]


def test_an_observer_without_init_is_refused(loop: Any) -> None:
    class Forgetful(Notes):
        def __init__(self) -> None:
            self.notes = []

    with pytest.raises(UsageError, match=r"call Observer\.__init__"):
        loop.probes.register(Forgetful())


def test_due_timers_are_kept_if_an_observer_exits_that_hears_of_them(loop: Any) -> None:
    class Leaves(Notes):
        def note(self, event: int, what: Any, number: int) -> None:
            self.wants = 0
            raise SystemExit

    fired: list[int] = []
    for number in range(3):
        loop.call_at(loop.time() - 3 + number, fired.append, number)
    loop.probes.register(Leaves(observer.DUE))
    with pytest.raises(SystemExit):
        run(loop)
    run(loop)
    assert fired == [0, 1, 2]
