"""loopcore why: the causes that it names, and that the parts of a time add up to it."""

import argparse
import contextlib
import io
import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopcore.errors import UsageError
from loopcore_plugins.recorder.causes import Part, Why
from loopcore_plugins.recorder.chains import Chains
from loopcore_plugins.recorder.choosing import Item, at_time, lives, slowest
from loopcore_plugins.recorder.layout import Kind
from loopcore_plugins.recorder.model import Model
from loopcore_plugins.recorder.reading import read
from loopcore_plugins.recorder.why import why
from loopcore_plugins.trace.reading import find_problems, load, slowest_tasks
from tests.plugins.recorder import programs
from tests.plugins.recorder.building import IO, SOON, TASK, THREADSAFE, TIMER, Builder

NAMED = {
    "blocking_call": r"waiting for its turn, behind report#1 \(app.py:12\), in a blocking call at report "
    r"\(app.py:13\): read \(socket.py:700\)",
    "thread_holds_the_gil": r"running handle .*, waiting for the GIL, held by the thread cruncher in crunch "
    r"\(crunch.py:5\)",
    "full_executor": r"waiting for a free thread of the executor: its threads ran resize \(app.py:1\) \(2\)",
    "lock_across_an_await": r"waiting for a lock in handle \(app.py:41\), released by refresher, sleeping until a "
    r"timer in refresh \(app.py:31\)",
    "neighbour_takes_the_cpu": r"running handle .*, ready to run, but the kernel ran other threads or processes",
}


def run(*arguments: object) -> int:
    """Run the command in this process."""
    parser = argparse.ArgumentParser()
    why(parser)
    options = parser.parse_args([str(each) for each in arguments])
    code: int = options.act(options)
    return code


def check_sums(parts: list[Part], whole: int) -> None:
    assert sum(part.ns for part in parts) == whole
    for part in parts:
        assert part.ns > 0
        if part.parts:
            check_sums(part.parts, part.ns)


def model_of(build: Builder, tmp_path: Path) -> Model:
    return Model(read(build.write(tmp_path / "app.rec")))


@pytest.mark.parametrize("program", programs.ALL, ids=lambda program: program.__name__)
def test_each_planted_cause_is_named(program: Callable[[Builder], None], tmp_path: Path, capsys: Any) -> None:
    build = Builder()
    program(build)
    assert run(build.write(tmp_path / "app.rec")) == 0
    output = capsys.readouterr().out
    first = output.split("\n1. ")[1]
    assert first.startswith("handle#")
    assert re.search(NAMED[program.__name__], first.splitlines()[1]), output


def test_five_causes_in_one_recording_are_five_answers(tmp_path: Path, capsys: Any) -> None:
    build = Builder()
    for program in programs.ALL:
        program(Shifted(build, build.at + 1000))  # type: ignore[arg-type]
    path = build.write(tmp_path / "app.rec")
    run(path, "--slowest", 10)
    output = capsys.readouterr().out
    for cause in NAMED.values():
        assert len(re.findall(f"why: {cause}", re.sub("#[0-9]+", "#1", output))) == 1, output


class Shifted:
    """A builder whose times begin later."""

    def __init__(self, build: Builder, offset: float) -> None:
        vars(self).update(_build=build, _offset=offset)
        build.wait(offset)

    def __getattr__(self, name: str) -> Any:
        build, offset = self._build, self._offset
        moved: dict[str, Callable[..., Any]] = {
            "at": lambda: build.at - offset,
            "wait": lambda: lambda until, **more: build.wait(until if until is None else until + offset, **more),
            "due": lambda: lambda deadline: build.due(deadline + offset),
            "stall": lambda: lambda cause, a, b, **more: build.stall(cause, a + offset, b + offset, **more),
            "job": lambda: (
                lambda job, name, started, ended, thread="loopcore_0": build.job(
                    job, name, started + offset, ended + offset, thread
                )
            ),
        }
        return moved[name]() if name in moved else getattr(build, name)

    def __setattr__(self, name: str, value: float) -> None:
        assert name == "at"
        self._build.at = value + self._offset


def test_anyio_threads_are_an_executor(tmp_path: Path) -> None:
    build = Builder()
    programs.full_pool_of_anyio(build)
    [life] = lives(Chains(model_of(build, tmp_path)), "handle", 1)
    in_thread, in_queue = life.parts[:2]
    assert (in_thread.why, str(in_thread.label)) == (Why.EXECUTOR, "look_up (app.py:7)")
    assert (in_queue.why, in_queue.note) == (Why.POOL, "its threads ran scan (app.py:7) (1)")
    check_sums(life.parts, life.end - life.begin)
    assert life.late > 350e6


@pytest.mark.parametrize(
    ("kept", "gil", "expected"),
    [(True, 0.0, Why.GIL), (False, 5.0, Why.GIL), (False, 0.0, Why.OFF_CPU)],
    ids=["watch thread late", "loop's wait late", "no sign of the GIL"],
)
def test_a_step_off_the_cpu_waits_for_the_thread_that_kept_the_gil(
    tmp_path: Path, kept: bool, gil: float, expected: Why
) -> None:
    build = Builder()
    build.wait(10, gil=gil)
    build.clocks(10)
    build.step(1, "slow", 60)
    build.record(Kind.WAIT)
    build.clocks(11)
    build.tick()
    build.wait(100)
    span = {"began_ns": build.ns(5), "ended_ns": build.ns(90), "cpu_seconds": 0.08, "kept_gil": kept}
    build.facts["busy"] = [span | {"thread": "trainer", "place": ["train", "/srv/app.py", 9]}]
    [item] = slowest(Chains(model_of(build, tmp_path)), 1)
    cause = item.path[-1]
    assert cause.why is expected
    assert "trainer in train (app.py:9)" in (cause.who if expected is Why.GIL else cause.note)


def test_a_stall_with_many_victims_does_not_hide_a_smaller_cause(tmp_path: Path) -> None:
    build = Builder(capacity=8192)
    build.begin(1, "slow")
    for number in range(1000):
        build.wake(100 + number, "victim", SOON)
    build.at += 2000
    for number in range(1000):
        build.step(100 + number, "victim", 0.01, SOON)
    build.wait(5000)
    build.step(2, "other", 50)
    build.wait(6000)
    stalled, other = slowest(Chains(model_of(build, tmp_path)), 5)
    assert stalled.others == pytest.approx(1000, abs=3)
    assert other.step.label.name == "other"


def request_that_runs(build: Builder, who: int, took: float, cause: str = "", *stack: list[Any]) -> float:
    """A request whose handler is one long step, as under uvicorn: the coroutine is that of any other request.

    Returns when the step began. With a cause, the watchdog saw it.
    """
    build.wait(build.at + 100, events=1)
    programs.a_request_arrives(build, who, "run_asgi")
    begin = build.at
    build.clocks(begin)
    build.step(who, "run_asgi", took)
    build.done(who)
    if cause:
        build.stall(cause, begin, build.at, cpu=took if cause == "busy" else 0, stack=[*stack])
    build.record(Kind.WAIT)
    build.clocks(begin + (took if cause == "busy" else 0))
    build.at += 0.01
    build.tick(1)
    programs.a_request_arrives(build, who + 1, "run_asgi")
    build.step(who + 1, "run_asgi", 0.2)
    build.done(who + 1)
    return begin


def cause_of(item: Item) -> str:
    return f"{item.path[-1].why} {item.path[-1].label}"


def test_two_handlers_of_the_same_outer_coroutine_are_two_causes(tmp_path: Path) -> None:
    build = Builder()
    request_that_runs(build, 1, 900, "busy", ["run_asgi", "/srv/app.py", 1], ["cpu", "/srv/app.py", 14])
    request_that_runs(build, 3, 600, "blocked", ["run_asgi", "/srv/app.py", 1], ["report", "/srv/app.py", 7])
    request_that_runs(build, 5, 800, "busy", ["run_asgi", "/srv/app.py", 1], ["cpu", "/srv/app.py", 15])
    build.wait(build.at + 100)
    items = slowest(Chains(model_of(build, tmp_path)), 5)
    assert [cause_of(item) for item in items] == ["cpu cpu (app.py:14)", "blocked report (app.py:7)"]
    assert [item.others for item in items] == [5, 2]
    assert all(item.path[0].why is Why.TURN for item in items)  # of those that they kept waiting


def test_without_a_stall_each_long_step_is_a_cause(tmp_path: Path) -> None:
    build = Builder()
    request_that_runs(build, 1, 90)
    request_that_runs(build, 3, 60)
    build.wait(build.at + 100)
    items = slowest(Chains(model_of(build, tmp_path)), 5)
    assert [item.path[-1].why for item in items] == [Why.OFF_CPU, Why.OFF_CPU]
    assert [item.late for item in items] == pytest.approx([90e6, 60e6], rel=0.02)
    assert [item.others for item in items] == [2, 2]


def test_many_short_steps_of_a_coroutine_are_one_cause(tmp_path: Path) -> None:
    build = Builder()
    for first in (100, 200):
        build.wait(build.at + 10)
        build.begin(99, "start", SOON)
        for number in range(50):
            build.wake(first + number, "callback", SOON)
        for number in range(50):
            build.step(first + number, "callback", 0.9 + number / 1000, SOON)
    build.wait(build.at + 10)
    [item] = slowest(Chains(model_of(build, tmp_path)), 5)
    assert (item.path[-1].why, item.path[-1].count, item.culprit) == (Why.BEHIND, 49, None)


@pytest.mark.parametrize(
    ("reason", "first"), [("stall", "blocked report (app.py:7)"), ("signal", "cpu cpu (app.py:14)")]
)
def test_the_stall_that_caused_the_dump_is_the_first_answer(tmp_path: Path, reason: str, first: str) -> None:
    build = Builder()
    report = ["report", "/srv/app.py", 7]
    request_that_runs(build, 1, 700, "blocked", report)
    request_that_runs(build, 3, 90_000, "busy", ["cpu", "/srv/app.py", 14])
    begin = request_that_runs(build, 5, 600, "blocked", report)
    build.wait(build.at + 100)
    build.facts["reason"] = reason
    items = slowest(Chains(model_of(build, tmp_path)), 2)
    assert cause_of(items[0]) == first
    assert len(items) == (2 if reason == "stall" else 1)  # the other one is small
    assert (reason == "stall") == (abs(items[0].begin - build.ns(begin)) < 1e6)


def test_the_step_that_stalled_is_the_first_answer_even_if_it_had_waited_for_longer(tmp_path: Path) -> None:
    build = Builder()
    programs.lock_across_an_await(build)
    build.wait(1000)
    build.wake(9, "handle", kind=Kind.SPAWN)
    build.step(9, "handle", 0.1)
    build.wait(5000)
    build.begin(8, "refresh")
    build.wake(9, "handle")
    build.at += 0.1
    build.site(9, ("handle", "/srv/app.py", 41), ("Lock.acquire", programs.LOCKS, 110))
    build.step(9, "handle", 300)
    build.stall("blocked", build.at - 300, build.at, stack=[["handle", "/srv/app.py", 43]])
    build.facts["reason"] = "stall"
    items = slowest(Chains(model_of(build, tmp_path)), 5)
    assert cause_of(items[0]) == "blocked handle (app.py:43)"
    assert items[0].late == pytest.approx(300e6, rel=1e-3)
    assert any(part.why is Why.LOCK for part in items[1].path)


def test_a_stall_in_a_wait_is_the_first_answer_by_a_step_that_it_kept_waiting(tmp_path: Path) -> None:
    build = Builder()
    request_that_runs(build, 1, 900, "blocked", ["report", "/srv/app.py", 7])
    build.wait(build.at + 300, events=1, gil=250)
    build.stall("gil", build.at - 250, build.at)
    programs.a_request_arrives(build, 5, "run_asgi")
    build.step(5, "run_asgi", 0.2)
    build.done(5)
    build.wait(build.at + 100)
    build.facts["reason"] = "stall"
    items = slowest(Chains(model_of(build, tmp_path)), 5)
    assert [item.path[-1].why for item in items] == [Why.GIL, Why.BLOCKED]


def test_a_late_event_is_blamed_on_the_wait_for_the_gil(tmp_path: Path) -> None:
    build = Builder()
    build.wait(50, events=1, gil=40)
    programs.a_request_arrives(build)
    build.step(programs.REQUEST, "handle", 0.5)
    build.done(programs.REQUEST)
    build.wait(60)
    model = model_of(build, tmp_path)
    (item, *_) = slowest(Chains(model), 5)
    assert [part.why for part in item.path] == [Why.TURN, Why.GIL]
    assert item.path[-1].ns == 40_000_000


def test_a_wait_for_the_gil_names_the_thread_that_computed(tmp_path: Path) -> None:
    build = Builder()
    build.wait(50, events=1, gil=40)
    programs.a_request_arrives(build)
    build.step(programs.REQUEST, "handle", 0.5)
    build.done(programs.REQUEST)
    build.wait(60)
    span = {"began_ns": build.ns(5), "ended_ns": build.ns(55), "cpu_seconds": 0.04, "kept_gil": True}
    build.facts["busy"] = [span | {"thread": "trainer", "place": ["train", "/srv/app.py", 9]}]
    (item, *_) = slowest(Chains(model_of(build, tmp_path)), 5)
    assert (item.path[-1].why, item.path[-1].who) == (Why.GIL, "trainer in train (app.py:9)")


def test_a_collection_in_a_step_is_told(tmp_path: Path) -> None:
    build = Builder()
    build.begin(1, "handle")
    build.at += 80
    build.record(Kind.COLLECTED, 2, who=70_000_000)
    build.at += 1
    build.wait(100)
    (item,) = slowest(Chains(model_of(build, tmp_path)), 5)
    assert [part.why for part in item.path] == [Why.RUNNING, Why.COLLECTOR]
    assert item.path[-1].ns == 70_000_000


def test_what_no_record_explains_is_unknown(tmp_path: Path) -> None:
    build = Builder()
    build.step(1, "handle", 100)
    build.wait(200)
    build.step(1, "handle", 1)
    build.done(1)
    build.wait(300)
    chains = Chains(model_of(build, tmp_path))
    (life,) = lives(chains, "handle", 1)
    running, unknown = life.parts
    assert [part.why for part in running.parts] == [Why.UNKNOWN]
    assert (unknown.why, unknown.ns, unknown.note) == (Why.UNKNOWN, 100_000_000, "the recording does not have its wake")


def test_a_task_that_hangs_is_still_waiting(tmp_path: Path) -> None:
    build = Builder()
    build.step(1, "worker", 1)
    build.wait(5000)
    frames = [["worker", "/srv/app.py", 8], ["Queue.get", "/usr/lib/python3.14/asyncio/queues.py", 1]]
    build.facts["tasks"] = [{"who": 1, "name": "Task-9", "coroutine": "worker", "state": "waiting", "stack": frames}]
    (life,) = lives(Chains(model_of(build, tmp_path)), "Task-9", 1)
    assert (life.parts[0].why, life.parts[0].ns, life.parts[0].label) == (
        Why.STILL,
        4_999_000_000,
        ("worker", "/srv/app.py", 8),
    )


def test_holders_of_a_lock_are_told_one_after_the_other(tmp_path: Path) -> None:
    build = Builder()
    tasks = range(1, 5)
    for task in tasks:
        build.wake(task, "worker", kind=Kind.SPAWN)
        build.name(task, f"worker-{task}")
    for task in tasks:
        build.step(task, "worker", 0.1)
    for task in tasks:
        build.wait(build.at + 100)
        build.due(build.at)
        build.begin(99, "set_result", TIMER)
        build.wake(task, "worker")
        build.begin(task, "worker")
        if task + 1 in tasks:
            build.wake(task + 1, "worker")
            build.done(task)
            build.site(task + 1, ("worker", "/srv/app.py", 9), ("Lock.acquire", programs.LOCKS, 99))
            build.step(task + 1, "worker", 0.1)
    build.wait(build.at + 10)
    (life,) = lives(Chains(model_of(build, tmp_path)), "worker-4", 1)
    lock = next(part for part in life.parts if part.why is Why.LOCK)
    assert lock.who == "worker-3"
    assert lock.ns == pytest.approx(300_000_000, rel=0.01)
    assert not any(part.why is Why.LOCK for part in lock.parts)
    assert lock.parts[0].why is Why.SLEEP
    assert lock.parts[0].ns == pytest.approx(300_000_000, rel=0.01)
    check_sums(life.parts, life.end - life.begin)


def test_a_callback_that_was_put_off_by_many_names_the_turn_only(tmp_path: Path) -> None:
    build = Builder()
    build.wait(10)
    build.begin(500, "start", SOON)
    for number in range(100):
        build.wake(number + 1, f"callback_{number}", SOON)
    for number in range(100):
        build.step(number + 1, f"callback_{number}", 0.9, SOON)
    build.wait(200)
    (item, *_) = slowest(Chains(model_of(build, tmp_path)), 1)
    assert [part.why for part in item.path] == [Why.TURN]
    assert len(item.path[0].parts) >= 99


@pytest.mark.parametrize("seed", range(40))
def test_parts_add_up_in_any_recording(seed: int, tmp_path: Path) -> None:
    model = model_of(generated(random.Random(seed)), tmp_path)
    chains = Chains(model)
    for step in model.steps:
        begin, parts = chains.leg(step)
        check_sums(parts, step.end - begin)
    for task in model.tasks:
        if task.steps:
            begin, end, parts = chains.life(task)
            check_sums(parts, end - begin)
    recording = model.recording
    for item in (*slowest(chains, 50), *at_time(chains, (recording.begin + recording.end) // 2, 50)):
        assert item.path
        assert item.late <= item.end - item.begin


def generated(draw: random.Random) -> Builder:
    """A recording in which anything follows anything: the order of a real loop is not assumed."""
    build = Builder(capacity=draw.choice((64, 256)))
    cpu = queued = 0.0
    for _ in range(draw.randrange(20, 250)):
        who, name = draw.randrange(1, 8), draw.choice(("a", "b", "c"))
        build.at += draw.choice((0.0, 0.001, 0.3, 20.0))
        match draw.randrange(12):
            case 0 | 1:
                build.wait(build.at + draw.choice((0.01, 5, 50)), gil=draw.choice((0, 3, 100)))
            case 2:
                build.wait(None)
            case 3 | 4 | 5:
                build.step(
                    who, name, draw.choice((0.0, 0.5, 30)), draw.choice((SOON, THREADSAFE, TIMER, IO, TASK, TASK))
                )
            case 6:
                build.wake(who, name, TASK, draw.choice((Kind.WAKE, Kind.SPAWN, Kind.POST)))
            case 7:
                build.wake(who, name)
                build.site(
                    who, ("f", "/srv/app.py", 1), draw.choice((("Lock.acquire", "locks.py", 1), ("g", "x.py", 2)))
                )
            case 8:
                build.due(build.at - draw.choice((0, 10, 500)))
            case 9:
                build.submit(who, name)
            case 10:
                build.job(who, name, draw.uniform(0, build.at), draw.uniform(0, build.at))
                build.wake(who, name, THREADSAFE, Kind.POST)
            case 11:
                cpu, queued = cpu + draw.uniform(0, 20), queued + draw.uniform(0, 20)
                build.clocks(cpu, queued)
                build.record(Kind.COLLECTED, who=draw.randrange(10**7))
                build.done(who)
                cause = draw.choice(("blocked", "busy", "gc", "gil", "suspended"))
                build.stall(cause, build.at - draw.uniform(1, 100), build.at, cpu=draw.uniform(0, 30))
    return build


# The command


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    build = Builder(capacity=256)
    programs.lock_across_an_await(build)
    build.record(Kind.ERROR, label=build.label("ValueError: <b>\x1b[2J", "", 0))
    return build.write(tmp_path / "app.rec")


def test_a_task_is_found_by_name_coroutine_or_number(dump: Path, capsys: Any) -> None:
    for wish in ("refresher", "refresh", "0x2000"):
        run(dump, "--task", wish)
        assert "\n1. refresher, refresh (app.py:1): " in capsys.readouterr().out
    with pytest.raises(
        UsageError, match=r"called 'refreser' \(did you mean 'refresher'\?\); there are: handle, refresh"
    ):
        run(dump, "--task", "refreser")


def test_a_time_is_seconds_before_the_end_or_of_the_clock(dump: Path, capsys: Any) -> None:
    run(dump, "--at", "0.2")
    assert "the loop waited for events, or did its own work\n\n1. handle#2" in capsys.readouterr().out
    run(dump, "--at", "0")
    assert "nothing in this recording was late" in capsys.readouterr().out
    run(dump)
    begin = re.search(r"from (\d\d:\d\d:\d\d\.\d\d\d) to", capsys.readouterr().out)
    assert begin is not None
    run(dump, "--at", begin[1][:-1] + "9")
    assert f"at {begin[1][:-1]}9 " in capsys.readouterr().out
    for wish, wrong in (
        ("99", "is not in the recording, which is from"),
        ("noon", "is not a time"),
        ("1:2", "is not a"),
        ("25:61:00", "'25:61:00' is not a time; give seconds before the end, or HH:MM:SS from 00:00:00 to 23:59:59"),
        ("23:59:60", "is not a time"),
    ):
        with pytest.raises(UsageError, match=wrong):
            run(dump, "--at", wish)


def test_a_time_that_was_printed_finds_what_began_then(tmp_path: Path, capsys: Any) -> None:
    build = Builder()
    build.wait(100.7)
    build.step(1, "slow", 50)
    build.wait(200)
    path = build.write(tmp_path / "app.rec")
    run(path)
    times = re.search(r"from (\S+) to (\S+)", capsys.readouterr().out)
    assert times is not None
    assert times[1].endswith(".100")
    for printed in times.groups():
        run(path, "--at", printed)
        assert "\n1. slow#1" in capsys.readouterr().out
    run(path, "--at", times[1][:-1] + "1")
    assert "\n1. slow#1" in capsys.readouterr().out
    run(path, "--at", times[1][:-3] + "099")
    assert "nothing in this recording was late" in capsys.readouterr().out
    with pytest.raises(UsageError) as caught:
        run(path, "--at", "99")
    bounds = re.search(r"from (\S+) to (\S+)$", str(caught.value))
    assert bounds is not None
    for printed in bounds.groups():
        run(path, "--at", printed)


def test_the_request_of_a_stall_is_in_every_form_of_the_answer(tmp_path: Path, capsys: Any) -> None:
    build = Builder()
    begin = request_that_runs(build, 1, 600)
    request = {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "span_id": "00f067aa0ba902b7"}
    build.stall("blocked", begin, begin + 600, stack=[["report", "/srv/app.py", 7]], request=request)
    build.stall("blocked", begin - 90, begin - 80)
    request_that_runs(build, 3, 50)
    path, page = build.write(tmp_path / "app.rec"), tmp_path / "why.html"
    run(path, "--page", page)
    words = f"request: trace_id {request['trace_id']}, span_id {request['span_id']}"
    assert capsys.readouterr().out.count(f"  {words}\n") == 1
    assert page.read_text(encoding="utf-8").count(f">{words}<") == 1
    run(path, "--json")
    assert [item["requests"] for item in json.loads(capsys.readouterr().out)["items"]] == [[request], []]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_files_are_for_their_owner_only(dump: Path, tmp_path: Path) -> None:
    old, new, trace = tmp_path / "old.html", tmp_path / "new.html", tmp_path / "trace.json.gz"
    old.touch(0o644)
    run(dump, "--page", old)
    run(dump, "--page", new, "--trace", trace)
    assert [path.stat().st_mode & 0o777 for path in (old, new, trace)] == [0o600] * 3
    umask = os.umask(0)
    os.umask(umask)
    assert umask != 0o077  # it is as before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.parametrize("option", ["--page", "--trace"])
def test_what_is_not_a_file_is_not_replaced(option: str, dump: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="it is not a file, and is not replaced"):
        run(dump, option, pipe)
    assert pipe.is_fifo()


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_a_page_replaces_a_link(dump: Path, tmp_path: Path) -> None:
    page, other = tmp_path / "page.html", tmp_path / "other"
    other.write_text("kept")
    other.chmod(0o644)
    page.symlink_to(other)
    run(dump, "--page", page)
    assert (other.read_text(), other.stat().st_mode & 0o777) == ("kept", 0o644)
    assert not page.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} - {dump.name} == {"page.html", "other"}


def test_json_has_the_whole_tree(dump: Path, capsys: Any) -> None:
    run(dump, "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer["facts"]["backend"] == "epoll"
    (item,) = answer["items"]
    lock = item["parts"][0]
    assert (lock["why"], lock["who"]) == ("lock", "refresher")
    assert lock["code"] == {"name": "handle", "file": "/srv/app.py", "line": 41}
    assert sum(part["ns"] for part in item["parts"]) == item["end_ns"] - item["begin_ns"]


def test_the_page_stands_alone_and_escapes_names(dump: Path, tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "why.html"
    run(dump, "--page", page)
    assert f"{page} is written" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script|\b(src|href)=|@import|url\(", text)
    assert "&lt;b&gt;\\x1b[2J" in text
    assert text.count("<details") == text.count("</details>") > 0
    assert "waiting for a lock in handle (app.py:41), released by refresher" in text


def test_the_trace_is_sound(tmp_path: Path) -> None:
    for program in programs.ALL:
        build = Builder()
        program(build)
        target = tmp_path / f"{program.__name__}.json.gz"
        run(build.write(tmp_path / "app.rec"), "--trace", target)
        events = load(target)
        assert find_problems(events) == []
        assert {event["pid"] for event in events} == {77}
        assert any("handle" in task.track for task in slowest_tasks(events))
        assert any(event["ph"] == "s" for event in events)


@pytest.mark.parametrize("seed", range(10))
def test_the_trace_of_any_recording_is_sound(seed: int, tmp_path: Path) -> None:
    path = generated(random.Random(seed)).write(tmp_path / "app.rec")
    run(path, "--trace", tmp_path / "trace.json")
    assert find_problems(load(tmp_path / "trace.json")) == []


def test_errors_say_what_to_do(dump: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.rec cannot be read: No such file"):
        run(tmp_path / "none.rec")
    with pytest.raises(UsageError, match="is not a recording; give a file that `loopcore dump`"):
        run(__file__)
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        run(dump, "--page", tmp_path / "no" / "page.html")
    with pytest.raises(SystemExit):
        run(dump, "--slowest", "0")


def test_an_output_that_is_ascii_gets_plain_branches(dump: Path) -> None:
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")  # raises for what it cannot encode
    with contextlib.redirect_stdout(output):
        run(dump)
    output.flush()
    assert b"|- waiting for a lock in handle (app.py:41)" in output.buffer.getvalue()  # type: ignore[attr-defined]
