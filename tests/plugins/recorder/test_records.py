"""What a program leaves in the recording."""

import asyncio
import functools
import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from loopcore.hooks.sources import SOURCES
from loopcore_plugins.recorder.layout import Kind, Outcome
from tests.plugins.recorder.recording import PATIENCE, named, of, quiet, read, record, story

pytestmark = pytest.mark.loopcore_only

LIFE = (Kind.SPAWN, Kind.WAKE, Kind.BEGIN, Kind.DONE)


def test_a_task_is_spawned_woken_stepped_and_done(loop: Any, tmp_path: Path) -> None:
    async def child() -> None:
        await asyncio.sleep(0)

    async def program() -> None:
        await loop.create_task(child(), name="kid")

    recording = record(loop, tmp_path, program)
    (spawned,) = named(recording, "child", Kind.SPAWN)
    assert story(recording, spawned.who, *LIFE) == ["SPAWN", "BEGIN", "WAKE", "BEGIN", "DONE"]
    assert {event.argument for event in named(recording, "child", *LIFE)} == {SOURCES.index("task")}
    code = recording.label(spawned.label)
    assert (code.file, code.line) == (__file__, child.__code__.co_firstlineno)
    (name,) = named(recording, "kid", Kind.NAME)
    assert name.who == spawned.who


def test_a_task_that_starts_the_recorder_is_not_spawned_in_the_recording(loop: Any, tmp_path: Path) -> None:
    recorder = quiet(tmp_path)

    async def program() -> None:
        loop.probes.register(recorder)
        await asyncio.sleep(0)

    loop.run_until_complete(program())
    events = named(read(recorder.dump()), "program", *LIFE)
    assert [event.kind.name for event in events] == ["WAKE", "BEGIN"]


def test_the_step_that_wakes_a_task_runs_when_the_wake_is_recorded(loop: Any, tmp_path: Path) -> None:
    event = asyncio.Event()

    async def waiting() -> None:
        await event.wait()

    async def waking() -> None:
        event.set()

    async def program() -> None:
        await asyncio.gather(waiting(), waking())

    recording = record(loop, tmp_path, program)
    (waiter,) = named(recording, "waiting", Kind.SPAWN)
    (begun,) = named(recording, "waking", Kind.BEGIN)
    after = recording.events[recording.events.index(begun) :]
    kinds = [(event.kind, event.who) for event in after]
    assert kinds.index((Kind.WAKE, waiter.who)) < kinds.index((Kind.DONE, begun.who))


def test_a_task_ends_with_a_result_an_exception_or_cancelled(loop: Any, tmp_path: Path) -> None:
    async def succeed() -> None: ...

    async def fail() -> None:
        raise ValueError

    async def hang() -> None:
        await loop.create_future()

    async def program() -> None:
        tasks = [loop.create_task(function()) for function in (succeed, fail, hang)]
        loop.call_soon(tasks[2].cancel)
        await asyncio.wait(tasks)
        assert tasks[1].exception() is not None

    recording = record(loop, tmp_path, program)
    done = {event.who: event.argument for event in of(recording, Kind.DONE)}
    for name, outcome in ("succeed", Outcome.RESULT), ("fail", Outcome.EXCEPTION), ("hang", Outcome.CANCELLED):
        (task,) = named(recording, name, Kind.SPAWN)
        assert done[task.who] == outcome


def test_callbacks_have_their_source_and_their_code(loop: Any, tmp_path: Path) -> None:
    def soon() -> None: ...
    def later() -> None:
        ended.set()

    def from_thread() -> None: ...

    ended = asyncio.Event()

    async def program() -> None:
        loop.call_soon(functools.partial(soon))
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(from_thread,))
        thread.start()
        thread.join()
        loop.call_later(0.001, later)
        await ended.wait()

    recording = record(loop, tmp_path, program)
    for name, source, queued in ("soon", "soon", Kind.WAKE), ("from_thread", "threadsafe", Kind.POST):
        (begun,) = named(recording, name, Kind.BEGIN)
        before = recording.events[: recording.events.index(begun)]
        added = [(event.kind, event.argument, event.who) for event in before]
        assert (queued, SOURCES.index(source), begun.who) in added
    (timer,) = named(recording, "later", Kind.BEGIN)
    assert timer.argument == SOURCES.index("timer")
    (due,) = of(recording, Kind.DUE)
    assert due.at <= timer.at
    assert recording.begin < due.who <= due.at  # its deadline


def test_ticks_have_their_waits_and_events(loop: Any, tmp_path: Path) -> None:
    async def program() -> None:
        await asyncio.sleep(0.1)  # still ahead when the loop begins to wait

    recording = record(loop, tmp_path, program)
    waits = of(recording, Kind.WAIT)
    assert {event.argument for event in waits} == {0, 1}
    assert 0 <= len(of(recording, Kind.TICK)) - len(waits) <= 1  # the first was the begin of the recording
    assert [event.at for event in recording.events] == sorted(event.at for event in recording.events)


def test_a_job_has_its_function_its_thread_and_its_times(loop: Any, tmp_path: Path) -> None:
    def job() -> int:
        return time.monotonic_ns()

    def failing() -> None:
        raise ValueError

    async def program() -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="pool") as pool:
            during.append(await loop.run_in_executor(pool, job))
            with pytest.raises(ValueError, match=r"^$"):
                await loop.run_in_executor(pool, failing)
        await asyncio.to_thread(job)
        await asyncio.sleep(0)

    during: list[int] = []
    recording = record(loop, tmp_path, program)
    submitted, first, second, last = named(recording, "job", Kind.JOB_SUBMITTED)[:1] + of(recording, Kind.JOB)
    assert submitted.who == first.who
    assert (first.argument, second.argument, last.argument) == (0, 1, 0)
    assert recording.label(second.label).name.endswith("failing")
    assert recording.label(last.label) == recording.label(first.label)  # behind the context of to_thread
    started, ended = of(recording, Kind.JOB_STARTED)[0], of(recording, Kind.JOB_ENDED)[0]
    assert recording.label(started.label).name == "pool_0"
    assert submitted.at - 1_000_000 <= started.who <= during[0] <= ended.who <= first.at + 1_000_000
    assert ended.argument == 0


def test_jobs_that_wait_for_a_thread_are_counted(loop: Any, tmp_path: Path) -> None:
    go = threading.Event()

    async def program() -> None:
        with ThreadPoolExecutor(1) as pool:
            jobs = [loop.run_in_executor(pool, go.wait, PATIENCE) for _ in range(4)]
            jobs[3].cancel()
            go.set()
            await asyncio.wait(jobs)
        await asyncio.sleep(0)

    recording = record(loop, tmp_path, program)
    assert [event.argument for event in of(recording, Kind.JOB_ENDED)][-1] == 0
    assert max(event.argument for event in of(recording, Kind.JOB_ENDED)) in (1, 2, 3)


def test_connections_and_bytes_are_recorded(loop: Any, tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1000))
        writer.close()
        await writer.wait_closed()

    async def program() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(bytes(1000))
        assert len(await reader.read()) == 1000
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.003)  # the counts are recorded by the first tick after 2 ms

    recording = record(loop, tmp_path, program)
    opened = of(recording, Kind.OPENED)
    assert len(opened) == 2
    assert {event.who for event in opened} == {event.who for event in of(recording, Kind.CLOSED)}
    assert recording.label(opened[0].label).name == "StreamReaderProtocol.data_received"
    assert sum(event.who for event in of(recording, Kind.ACCEPTED)) == 1
    assert sum(event.who for event in of(recording, Kind.RECEIVED)) == 2000
    assert sum(event.who for event in of(recording, Kind.SENT)) == 2000


def test_long_collections_of_the_loops_thread_are_recorded(loop: Any, tmp_path: Path) -> None:
    async def program() -> None:
        kept = [[number] for number in range(200_000)]
        gc.collect()
        kept.clear()

    collected = of(record(loop, tmp_path, program), Kind.COLLECTED)
    assert max(event.who for event in collected if event.argument == 2) > 100_000


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="no schedstat here")
def test_the_clocks_of_the_thread_grow(loop: Any, tmp_path: Path) -> None:
    async def program() -> None:
        end = time.thread_time_ns() + 10_000_000
        while time.thread_time_ns() < end:
            await asyncio.sleep(0)

    recording = record(loop, tmp_path, program)
    cpu = [event.who for event in of(recording, Kind.CPU)]
    assert cpu == sorted(cpu)
    assert cpu[-1] - cpu[0] > 1_000_000
    delays = [event.who for event in of(recording, Kind.RUN_QUEUE)]
    assert delays == sorted(delays)


def test_a_long_suspension_says_where(loop: Any, tmp_path: Path) -> None:
    async def inner(until: asyncio.Event) -> None:
        await until.wait()

    async def program() -> None:
        event = asyncio.Event()
        loop.call_later(0.05, event.set)
        await inner(event)

    recording = record(loop, tmp_path, program)
    sites = [recording.label(event.label).name.split(".")[-1] for event in of(recording, Kind.SITE)]
    assert sites[:3] == ["program", "inner", "wait"]
    kinds = [event.kind for event in recording.events]
    begun = recording.events[kinds.index(Kind.SITE) + len(sites)]
    assert (begun.kind, begun.who) == (Kind.BEGIN, of(recording, Kind.SITE)[0].who)


def test_the_facts_name_the_tasks_that_are_alive(loop: Any, tmp_path: Path) -> None:
    recorder = quiet(tmp_path)
    loop.probes.register(recorder)

    async def waiting() -> None:
        await loop.create_future()

    async def program() -> Path:
        task = loop.create_task(waiting(), name="the waiter")
        await asyncio.sleep(0)
        path = recorder.dump(reason="command", detail="by hand")
        task.cancel()
        return path

    recording = read(loop.run_until_complete(program()))
    assert {key: recording.facts[key] for key in ("reason", "detail", "pid", "backend")} == {
        "reason": "command",
        "detail": "by hand",
        "pid": os.getpid(),
        "backend": loop.backend.name,
    }
    states = {task["coroutine"].split(".")[-1]: task["state"] for task in recording.facts["tasks"]}
    assert states == {"waiting": "waiting", "program": "running"}
    (spawned,) = named(recording, "waiting", Kind.SPAWN)
    assert recording.names[spawned.who] == "the waiter"
    assert [place.name.split(".")[-1] for place in recording.stacks[spawned.who]] == ["waiting"]


async def test_the_history_of_a_task_is_read_while_it_lives(loop: Any, tmp_path: Path) -> None:
    recorder = quiet(tmp_path)

    async def child() -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert recorder.history(task, limit=1)[0]["what"] == "runs"
        return recorder.history(task)

    assert recorder.history(object()) == []  # it records no loop
    loop.probes.register(recorder)
    history = await loop.create_task(child())
    what = [each["what"] for each in history if each["what"] != "was suspended in"]  # on a busy machine
    assert what == ["spawned", "runs", "woken", "runs"]
    assert {each["code"].split("<locals>.")[-1].split(" ")[0] for each in history} <= {"child", "sleep", "__sleep0"}
    times = [each["at_ns"] for each in history]
    assert times == sorted(times)
