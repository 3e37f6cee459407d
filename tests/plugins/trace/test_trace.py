"""The trace of a real program, on every backend."""

import asyncio
import gc
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore import UsageError
from loopcore_plugins.trace import Trace
from loopcore_plugins.trace.reading import find_problems, load, slowest_tasks
from loopcore_plugins.trace.records import LOOP_TRACK
from tests.plugins.trace.programs import Event, blocking_job, everything, ordinary_callback, sleeper, traced

pytestmark = pytest.mark.loopcore_only


def _of(events: list[Event], kind: str, category: str = "") -> list[Event]:
    return [event for event in events if event["ph"] == kind and category in ("", event.get("cat"))]


def test_the_trace_of_a_program_is_sound(tmp_path: Path, backend_name: str) -> None:
    _, events = traced(tmp_path, backend_name)
    assert find_problems(events) == []


def test_phases_nest_in_ticks_and_callbacks_in_phases(tmp_path: Path, backend_name: str) -> None:
    _, events = traced(tmp_path, backend_name)
    names = Counter(event["name"] for event in _of(events, "X", "phase"))
    assert {"poll", "pending", "io", "timers"} <= set(names)
    first = next(event for event in _of(events, "X") if event["name"] == ordinary_callback.__name__)
    around = [
        event["cat"]
        for event in _of(events, "X")
        if event["tid"] == first["tid"] and event["ts"] <= first["ts"] and _end(event) >= _end(first)
    ]
    assert set(around) == {"tick", "phase", "callback"}


def _end(event: Event) -> float:
    return float(event["ts"]) + float(event["dur"])


def test_every_task_has_a_track_with_its_name_and_steps(tmp_path: Path, backend_name: str) -> None:
    _, events = traced(tmp_path, backend_name)
    titles = [event["args"]["name"] for event in _of(events, "M") if event["name"] == "thread_name"]
    assert len([title for title in titles if f"({sleeper.__qualname__})" in title]) == 3
    assert len([title for title in titles if f"({everything.__qualname__})" in title]) == 1


def test_an_arrow_leads_from_who_woke_a_task_to_the_step(tmp_path: Path, backend_name: str) -> None:
    _, events = traced(tmp_path, backend_name)
    tracks = {event["args"]["name"]: event["tid"] for event in _of(events, "M") if event["name"] == "thread_name"}
    producer = next(track for name, track in tracks.items() if "(producer)" in name)
    consumer = next(track for name, track in tracks.items() if "(consumer)" in name)
    begins = {event["id"]: event["tid"] for event in _of(events, "s")}
    ends = {event["id"]: event["tid"] for event in _of(events, "f")}
    assert (producer, consumer) in {(begins[number], ends[number]) for number in ends}


def test_a_job_has_a_thread_and_arrows_there_and_back(tmp_path: Path, backend_name: str) -> None:
    _, events = traced(tmp_path, backend_name)
    job = next(event for event in _of(events, "X", "job") if event["name"] == blocking_job.__name__)
    assert job["dur"] >= 4000
    assert [event for event in _of(events, "f") if event["tid"] == job["tid"]]
    assert [event for event in _of(events, "s") if event["tid"] == job["tid"]]


def test_posts_of_jobs_that_do_not_run_are_not_remembered_without_bound(
    tmp_path: Path, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopcore_plugins.trace.plugin.WAITING_ARROWS", 5)
    plugin = Trace(file=tmp_path / "trace.json")
    remembered: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))

        def post() -> None:  # none of them runs before all are posted: the loop waits
            for _ in range(20):
                loop.call_soon_threadsafe(ordinary_callback)
            remembered.append(len(plugin._origins))
            posted.set()

        posted = threading.Event()
        await loop.run_in_executor(None, int)  # posts come from the job that has ended in the thread
        job = loop.run_in_executor(None, post)
        posted.wait()
        await job

    loopcore.run(main(), backend=backend_name, plugins=[plugin])
    assert remembered == [5]
    assert find_problems(load(plugin.path)) == []


def test_writing_follows_no_link_that_somebody_put_there(tmp_path: Path, backend_name: str) -> None:
    """Issue 32: in a shared folder, others could guess the name of the temporary file and put a link there."""
    victim = tmp_path / "victim"
    victim.write_text("untouched", encoding="utf-8")
    for suffix in ("", ".gz"):
        for name in (f"trace.json{suffix}", f"trace.json{suffix}.part"):
            (tmp_path / name).symlink_to(victim)
        trace = Trace(file=tmp_path / f"trace.json{suffix}")
        loopcore.run(asyncio.sleep(0), backend=backend_name, plugins=[trace])
        assert victim.read_text(encoding="utf-8") == "untouched"
        assert not trace.path.is_symlink()
        assert load(trace.path)
    assert len(list(tmp_path.iterdir())) == 5


def test_transports_are_marked(tmp_path: Path, backend_name: str) -> None:
    _, events = traced(tmp_path, backend_name)
    marks = [event["name"] for event in _of(events, "i", "transport")]
    assert sum("opened" in mark for mark in marks) == sum("closed" in mark for mark in marks) == 2


def test_a_full_ring_keeps_the_newest_and_counts_the_rest(tmp_path: Path, backend_name: str) -> None:
    plugin, events = traced(tmp_path, backend_name, limit=50)
    records, dropped = plugin.records()
    assert len(records) == 50
    assert dropped > 0
    assert json.loads(plugin.path.read_text())["otherData"]["dropped_records"] == dropped
    assert find_problems(events) == []


def test_an_exception_is_marked(tmp_path: Path, backend_name: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: None)
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    plugin = Trace(file=tmp_path / "trace.json")
    loopcore.run(main(), backend=backend_name, plugins=[plugin])
    (mark,) = _of(load(plugin.path), "i", "error")
    assert mark["args"]["exception"] == "ZeroDivisionError: division by zero"


def test_the_slowest_task_is_found(tmp_path: Path, backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0

    def tell() -> int:
        nonlocal now
        now += 1_000
        return now

    async def busy() -> None:
        nonlocal now
        now += 1_000_000_000

    monkeypatch.setattr("loopcore_plugins.trace.plugin._now", tell)

    async def main() -> None:
        await asyncio.gather(sleeper(0), busy(), sleeper(1))

    plugin = Trace(file=tmp_path / "trace.json")
    loopcore.run(main(), backend=backend_name, plugins=[plugin])
    assert "busy" in slowest_tasks(load(plugin.path), 1)[0].track


def test_a_plugin_that_comes_and_goes_while_the_loop_runs_leaves_a_sound_trace(
    tmp_path: Path, backend_name: str
) -> None:
    plugin = Trace(file=tmp_path / "trace.json")

    async def main() -> None:
        probes = asyncio.get_running_loop().probes  # type: ignore[attr-defined]
        probes.register(plugin)
        await everything()
        probes.unregister(plugin)
        await everything()

    loopcore.run(main(), backend=backend_name)
    events = load(plugin.write())
    assert find_problems(events) == []
    assert _of(events, "X", "task")


def test_what_began_before_a_pause_is_not_taken_for_what_runs_after_it(tmp_path: Path, backend_name: str) -> None:
    plugin = Trace(file=tmp_path / "trace.json")

    async def main() -> None:
        probes = asyncio.get_running_loop().probes  # type: ignore[attr-defined]
        probes.register(plugin)
        await asyncio.sleep(0)
        probes.unregister(plugin)
        await asyncio.sleep(0.5)
        probes.register(plugin)
        await asyncio.sleep(0)

    loopcore.run(main(), backend=backend_name)
    steps = [step for step in _of(load(plugin.path), "X", "task") if step["name"].endswith("main")]
    assert max(step["dur"] for step in steps) < 500_000


def test_a_destroyed_task_leaves_its_track_to_nobody(tmp_path: Path, backend_name: str) -> None:
    plugin = Trace(file=tmp_path / "trace.json")

    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        for number in range(20):
            asyncio.create_task(never(), name=f"destroyed {number}")
            await asyncio.sleep(0)
            gc.collect()

    loopcore.run(main(), backend=backend_name, plugins=[plugin])
    steps = _of(load(plugin.path), "X", "task")
    tracks = {step["tid"] for step in steps if step["args"]["task"].startswith("destroyed")}
    assert len(tracks - {LOOP_TRACK}) == 20
    gc.collect()
    assert not plugin._tracks  # nor is anything kept of a task that is gone


def test_what_cannot_be_described_is_traced_all_the_same(tmp_path: Path, backend_name: str) -> None:
    class Proxy:
        def __call__(self) -> None: ...

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("outside of any context")

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: None)
        loop.call_soon(Proxy())
        loop.call_exception_handler({"message": "", "exception": Mute()})
        await asyncio.sleep(0)
        assert loop.probes.failures == {}  # type: ignore[attr-defined]

    plugin = Trace(file=tmp_path / "trace.json")
    loopcore.run(main(), backend=backend_name, plugins=[plugin])
    events = load(plugin.path)
    assert [event for event in _of(events, "X", "callback") if event["name"].endswith("Proxy")]
    assert [event for event in _of(events, "i", "error") if event["args"]["exception"] == "Mute"]


def test_phases_that_had_nothing_to_do_are_left_out(tmp_path: Path, backend_name: str) -> None:
    _, events = traced(tmp_path, backend_name)
    assert all(phase["name"] == "poll" or phase["args"]["count"] for phase in _of(events, "X", "phase"))


def test_the_file_is_named_by_process_and_number_and_can_be_compressed(tmp_path: Path) -> None:
    plugins = [Trace(file=tmp_path / "of-{pid}-{n}.json.gz") for _ in range(2)]
    paths = {plugin.write() for plugin in plugins}
    assert len(paths) == 2
    for path in paths:
        assert path.name.startswith(f"of-{os.getpid()}-")
        assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="limit=0"):
        Trace(file=tmp_path / "x", limit=0)
    with pytest.raises(UsageError, match="no directory"):
        Trace(file=tmp_path / "missing" / "x")
    with pytest.raises(UsageError, match="is a directory"):
        Trace(file=tmp_path)


@pytest.mark.reports_errors
def test_a_file_that_cannot_be_written_is_reported_and_ends_nothing(
    tmp_path: Path, backend_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    plugin = Trace(file=folder / "trace.json")
    folder.rmdir()
    loopcore.run(sleeper(0), backend=backend_name, plugins=[plugin])
    assert "could not be written" in caplog.text


def test_sigterm_that_nobody_handles_ends_the_process_after_the_trace_is_written(
    tmp_path: Path, backend_name: str
) -> None:
    program = """
import asyncio, os, signal, loopcore
async def main():
    await asyncio.sleep(0)
    signal.raise_signal(signal.SIGTERM)
loopcore.run(main())
"""
    path = tmp_path / "trace.json"
    environment = {**os.environ, "LOOPCORE_PLUGINS": f"trace:file={path}", "LOOPCORE_BACKEND": backend_name}
    done = subprocess.run([sys.executable, "-c", program], env=environment, timeout=60, check=False)
    assert done.returncode == -signal.SIGTERM
    assert find_problems(load(path)) == []


def test_signal_that_arrives_while_the_trace_is_written_is_not_waited_for(tmp_path: Path) -> None:
    plugin = Trace(file=tmp_path / "trace.json")
    written = []

    class Interrupted(dict[int, int]):
        def items(self) -> Any:
            if not written:
                written.append(plugin.path)
                plugin._write_or_report()  # as the handler of SIGTERM does, in the thread that it interrupts
            return super().items()

    plugin._threads = Interrupted()
    writer = threading.Thread(target=plugin.write, daemon=True)
    writer.start()
    writer.join(30.0)
    assert not writer.is_alive()
    assert load(plugin.path)


def test_a_handler_of_sigterm_is_left_alone_and_the_default_action_comes_back(
    tmp_path: Path, backend_name: str
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert before is signal.SIG_DFL
    traced(tmp_path, backend_name)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    try:
        signal.signal(signal.SIGTERM, ignore := lambda *_: None)
        traced(tmp_path, backend_name)
        assert signal.getsignal(signal.SIGTERM) is ignore
    finally:
        signal.signal(signal.SIGTERM, before)
