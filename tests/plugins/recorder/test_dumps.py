"""When the recorder writes a dump, where, and that nothing else changes."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins import _tasktree
from loopcore_plugins.recorder import Recorder
from loopcore_plugins.recorder.layout import Kind
from loopcore_plugins.recorder.plugin import STALLS_KEPT
from loopcore_plugins.recorder.reading import Recording
from loopcore_plugins.watchdog.stall import Stall
from loopcore_plugins.watchdog.watch_thread import watch_thread
from tests.plugins.recorder.recording import PATIENCE, named, of, quiet, read, written

pytestmark = pytest.mark.loopcore_only

has_usr2 = pytest.mark.skipif(not hasattr(signal, "SIGUSR2"), reason="no SIGUSR2 here")


@pytest.fixture
def loop() -> Iterator[Any]:
    """A loop on the default backend: dumps are made alike on all."""
    made = loopcore.new_event_loop()
    yield made
    made.close()


async def nothing() -> None: ...


@pytest.fixture(params=["gil", "no gil"])
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread that dumps reads the tasks; without the GIL, it has the loop do so."""
    monkeypatch.setattr(_tasktree, "has_gil", lambda: request.param == "gil")
    monkeypatch.setattr(_tasktree, "BLOCKED_AFTER", PATIENCE)


@pytest.mark.usefixtures("_either")
def test_a_stall_is_dumped_with_its_stack_while_it_lasts(loop: Any, tmp_path: Path) -> None:
    loop.probes.register(quiet(tmp_path, stall=0.05))

    def blocking() -> Recording:
        never = threading.Event()
        for _ in range(int(PATIENCE / 0.01)):
            never.wait(0.01)
            for recording in map(read, tmp_path.glob("*.rec")):
                # A machine that is short of CPU makes other stalls.
                if "blocking" in [place.name.split(".")[-1] for stall in recording.stalls for place in stall.stack]:
                    return recording
        raise AssertionError("there is no dump")

    async def program() -> Recording:
        return blocking()

    recording = loop.run_until_complete(program())
    assert recording.facts["reason"] == "stall"
    (task,) = recording.facts["tasks"]
    assert (task["state"], task["name"]) == ("running", recording.facts["stalls"][-1]["task"])
    assert named(recording, "program", Kind.BEGIN)


def test_the_end_of_a_stall_replaces_its_dump(loop: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loop.probes.register(quiet(tmp_path, stall=0.05, most=1))

    async def program() -> None:
        never = threading.Event()
        while not any(tmp_path.glob("*.rec")):
            never.wait(0.01)
        (path,) = tmp_path.glob("*.rec")
        while "so far" in read(path).facts["detail"]:
            await asyncio.sleep(0.01)

    loop.run_until_complete(asyncio.wait_for(program(), PATIENCE))
    (path,) = written(tmp_path, 1)
    (stall,) = read(path).stalls
    assert stall.end - stall.begin > 0
    assert caplog.text.count("read it with: loopcore why") == 1


def test_the_end_of_a_stall_is_written_although_the_next_has_begun(loop: Any, tmp_path: Path) -> None:
    loop.probes.register(quiet(tmp_path, stall=0.05, most=1))

    async def program() -> None:
        never = threading.Event()
        for _ in range(2):
            never.wait(0.3)
            await asyncio.sleep(0)

    loop.run_until_complete(program())
    loop.close()
    (path,) = written(tmp_path, 1)
    assert "so far" not in read(path).facts["detail"]


@pytest.mark.reports_errors
def test_an_unhandled_exception_is_dumped(loop: Any, tmp_path: Path) -> None:
    loop.probes.register(quiet(tmp_path, exceptions=True))

    def failing() -> None:
        raise ValueError("of 3")

    loop.call_soon(failing)
    loop.run_until_complete(asyncio.sleep(0))
    (path,) = written(tmp_path, 1)
    recording = read(path)
    assert (recording.facts["reason"], recording.facts["detail"].split(" (")[0]) == ("exception", "ValueError: of 3")
    (error,) = of(recording, Kind.ERROR)  # it is in the dump that it has caused
    assert recording.label(error.label).name.startswith("ValueError: of 3 (Exception in callback")


@pytest.mark.reports_errors
@pytest.mark.parametrize(("options", "count"), [({"most": 2}, 2), ({"every": 3600.0}, 1), ({"most": 0}, 0)])
def test_dumps_are_limited(loop: Any, tmp_path: Path, options: dict[str, Any], count: int) -> None:
    recorder = quiet(tmp_path, exceptions=True, **options)
    loop.probes.register(recorder)
    for _ in range(4):
        loop.call_exception_handler({"message": "wrong"})
    written(tmp_path, count)
    recorder.dump()  # is not
    written(tmp_path, count + 1)


@pytest.mark.reports_errors
def test_the_log_says_that_no_more_is_written(loop: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    loop.probes.register(quiet(tmp_path, exceptions=True, most=0))
    loop.call_exception_handler({"message": "wrong"})
    assert "(exception: wrong), nor of others until the process ends: most is reached" in caplog.text


def test_the_last_stalls_are_kept(loop: Any, tmp_path: Path) -> None:
    recorder = quiet(tmp_path, most=0)
    loop.probes.register(recorder)
    for _ in range(STALLS_KEPT + 2):
        recorder.note_stall("begin", loop, Stall("blocked", 1.0, 0.0))
    assert len(recorder._stalls) == STALLS_KEPT


@pytest.mark.reports_errors
def test_an_error_of_another_thread_is_recorded_by_the_loop(loop: Any, tmp_path: Path) -> None:
    recorder = quiet(tmp_path)
    loop.probes.register(recorder)
    loop.run_until_complete(nothing())
    thread = threading.Thread(target=loop.call_exception_handler, args=({"message": "wrong"},))
    thread.start()
    thread.join()
    loop.run_until_complete(asyncio.sleep(0))
    recording = read(recorder.dump())
    (error,) = of(recording, Kind.ERROR)
    assert recording.label(error.label).name == "wrong"


def test_a_delay_of_too_many_ticks_is_dumped(loop: Any, tmp_path: Path) -> None:
    loop.probes.register(quiet(tmp_path, delay=1e-9, most=1))

    async def program() -> None:
        while not any(tmp_path.glob("*.rec")):
            await asyncio.sleep(0)

    loop.run_until_complete(asyncio.wait_for(program(), PATIENCE))
    (path,) = written(tmp_path, 1)
    facts = read(path).facts
    assert facts["reason"] == "delay"
    assert facts["detail"].endswith("worked for more than 1e-09 s")


async def test_no_delay_is_dumped_below_the_limit(loop: Any, tmp_path: Path) -> None:
    loop.probes.register(quiet(tmp_path, delay=3600.0))
    for _ in range(3000):
        await asyncio.sleep(0)
    written(tmp_path, 0)


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """The signals that reach the handler that was there before."""
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda signum, frame: seen.append(signum))
    yield seen
    signal.signal(signal.SIGUSR2, before)


@has_usr2
def test_a_signal_is_dumped_and_then_handled_as_before(loop: Any, tmp_path: Path, handled: list[int]) -> None:
    loop.probes.register(quiet(tmp_path, signal="USR2"))
    loop.run_until_complete(nothing())
    signal.raise_signal(signal.SIGUSR2)
    (path,) = written(tmp_path, 1)
    assert (read(path).facts["reason"], read(path).facts["detail"]) == ("signal", "SIGUSR2")
    assert handled == [signal.SIGUSR2]


@has_usr2
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_signal_is_for_all_loops_and_its_handler_comes_back(
    tmp_path: Path, handled: list[int], order: tuple[int, int]
) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    loops = [loopcore.new_event_loop(plugins=[quiet(tmp_path, signal="SIGUSR2")]) for _ in range(2)]
    signal.raise_signal(signal.SIGUSR2)
    written(tmp_path, 2)
    loops[order[0]].close()
    signal.raise_signal(signal.SIGUSR2)
    written(tmp_path, 3)
    loops[order[1]].close()
    assert signal.getsignal(signal.SIGUSR2) is before
    assert len(handled) == 2


@has_usr2
def test_a_handler_that_was_set_later_stays(loop: Any, tmp_path: Path, handled: list[int]) -> None:
    recorder = quiet(tmp_path, signal="USR2")
    loop.probes.register(recorder)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    loop.probes.unregister(recorder)
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN


def test_the_end_of_the_loop_is_dumped(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    loop = loopcore.new_event_loop(plugins=[quiet(tmp_path, at_exit=True)])
    assert signal.getsignal(signal.SIGTERM) is not before
    loop.run_until_complete(nothing())
    loop.close()
    (path,) = written(tmp_path, 1)
    assert read(path).facts["reason"] == "exit"
    assert of(read(path), Kind.DONE)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("_either")
async def test_a_dump_can_be_written_in_any_thread_while_the_loop_runs(loop: Any, tmp_path: Path) -> None:
    recorder = quiet(tmp_path)
    loop.probes.register(recorder)

    def dump() -> Path:
        asyncio.run_coroutine_threadsafe(nothing(), loop).result(PATIENCE)  # the task waits for this thread
        return recorder.dump(str(tmp_path / "own.rec"))  # type: ignore[arg-type]

    path = await asyncio.to_thread(dump)
    recording = read(path)
    assert path == tmp_path / "own.rec"
    assert [task["state"] for task in recording.facts["tasks"]] == ["waiting"]
    assert recording.problems == []


def test_only_its_owner_can_read_a_dump(loop: Any, tmp_path: Path) -> None:
    recorder = quiet(tmp_path)
    loop.probes.register(recorder)
    assert os.name != "posix" or stat.S_IMODE(recorder.dump().stat().st_mode) == 0o600


# What cannot be written


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "from 1 to 1024 MiB"),
        ({"stall": -1.0}, "stall=-1.0 must be from 0"),
        ({"every": float("nan")}, "every=nan must be from 0"),
        ({"signal": "USR9"}, "no SIGUSR9.*signal=USR2"),
        ({"signal": "KILL"}, "SIGKILL.*signal=USR2"),
        ({"dumps": Path("missing/app.rec")}, "mkdir -p .*missing"),
        ({"file": Path("missing/app.rec")}, "mkdir -p .*missing"),
        ({"dumps": Path()}, "is a directory; name a file in it"),
    ],
)
def test_what_cannot_be_is_an_error_when_the_recorder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        Recorder(**options)


def test_a_dump_that_cannot_be_written_is_logged_with_the_way_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    loop = loopcore.new_event_loop(plugins=[quiet(folder, at_exit=True)])
    folder.rmdir()
    loop.close()
    (message,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "No such file or directory" in message
    assert message.endswith("name another place with recorder:dumps=PATH")


@pytest.mark.reports_errors
def test_at_the_limit_of_threads_dumps_are_written_by_the_loop(
    loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop.probes.register(quiet(tmp_path, exceptions=True))

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def program() -> None:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        loop.call_exception_handler({"message": "wrong"})

    loop.run_until_complete(program())
    (path,) = written(tmp_path, 1)
    assert read(path).facts["detail"] == "wrong"
    assert "was taken out of the loop" not in caplog.text


@pytest.mark.reports_errors
def test_at_the_limit_of_threads_all_but_stalls_is_recorded(
    loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = quiet(tmp_path, stall=0.05)
    loop.probes.register(recorder)

    def refuse(subject: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(watch_thread(), "add", refuse)
    loop.run_until_complete(nothing())
    assert named(read(recorder.dump()), "nothing", Kind.BEGIN)
    assert "stalls of this run of the loop are not recorded: can't start new thread" in caplog.text


def test_a_dump_that_fails_leaves_no_part(loop: Any, tmp_path: Path) -> None:
    recorder = quiet(tmp_path)
    loop.probes.register(recorder)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        recorder.dump(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_without_a_loop_there_is_nothing_to_dump(tmp_path: Path) -> None:
    recorder = quiet(tmp_path)
    with pytest.raises(UsageError, match="register it with a loop first"):
        recorder.dump()
    loopcore.new_event_loop(plugins=[recorder]).close()
    with pytest.raises(UsageError, match="register it with a loop first"):
        recorder.dump()


# Its life


def surroundings() -> tuple[Any, ...]:
    handlers = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    return len(gc.callbacks), handlers, descriptors, threading.active_count()


def test_a_recorder_that_comes_and_goes_in_a_running_loop_leaves_everything_as_before(
    loop: Any, tmp_path: Path
) -> None:
    async def program() -> None:
        before = surroundings()
        for _ in range(3):
            recorder = quiet(tmp_path, signal="USR2" if hasattr(signal, "SIGUSR2") else "", at_exit=True)
            loop.probes.register(recorder)
            await asyncio.sleep(0)
            assert named(read(recorder.dump()), "program", Kind.BEGIN)
            loop.probes.unregister(recorder)
            assert surroundings() == before
            assert not recorder._tape
        await asyncio.sleep(0)

    loop.run_until_complete(program())
    written(tmp_path, 3)


def test_each_loop_has_its_own_recording(tmp_path: Path) -> None:
    async def first() -> None: ...
    async def second() -> None: ...

    recordings = []
    for function in first, second:
        recorder = quiet(tmp_path)
        with contextlib.closing(loopcore.new_event_loop(plugins=[recorder])) as loop:
            loop.run_until_complete(function())
            recordings.append(read(recorder.dump()))
    for recording, function, other in (recordings[0], "first", "second"), (recordings[1], "second", "first"):
        assert named(recording, function, Kind.SPAWN)
        assert not named(recording, other)


def test_a_recorder_is_for_one_loop(loop: Any, tmp_path: Path) -> None:
    recorder = quiet(tmp_path)
    loop.probes.register(recorder)
    with pytest.raises(UsageError, match="make another for the second"):
        loopcore.new_event_loop(plugins=[recorder])
    loop.run_until_complete(nothing())
    assert named(read(recorder.dump()), "nothing", Kind.BEGIN)


async def test_a_ring_that_is_full_keeps_the_newest(loop: Any, tmp_path: Path) -> None:
    async def last() -> None: ...

    recorder = quiet(tmp_path)
    loop.probes.register(recorder)
    for _ in range(35_000):  # each makes two records or more; a MiB has 65,536
        await asyncio.sleep(0)
    await loop.create_task(last())
    recording = read(recorder.dump())
    assert recording.problems == []
    assert recording.dropped > 0
    assert len(recording.events) <= 1 << 16
    assert named(recording, "last", Kind.SPAWN, Kind.BEGIN)


def test_a_loop_has_one_recorder(loop: Any, tmp_path: Path) -> None:
    loop.probes.register(quiet(tmp_path))
    with pytest.raises(UsageError, match="has a recorder already"):
        loop.probes.register(quiet(tmp_path))
    assert len(loop.probes.plugins()) == 1


def test_a_file_that_is_not_a_recording_is_not_overwritten(loop: Any, tmp_path: Path) -> None:
    recorder = quiet(tmp_path)
    loop.probes.register(recorder)
    precious = tmp_path / "app.py"
    precious.write_text("import this")
    with pytest.raises(FileExistsError, match="not a recording"):
        recorder.dump(precious)
    assert precious.read_text() == "import this"
    path = recorder.dump()
    assert recorder.dump(path) == path


def test_an_exception_that_a_finalizer_reports_while_a_dump_is_counted_is_no_deadlock(
    loop: Any, tmp_path: Path
) -> None:
    recorder = quiet(tmp_path, exceptions=True)
    loop.probes.register(recorder)
    loop.set_exception_handler(lambda loop, context: None)
    with recorder._lock:
        loop.call_exception_handler({"message": "from a finalizer"})
    written(tmp_path, 1)
